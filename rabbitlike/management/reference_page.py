"""The pages /api/index.html and /cli/index.html, generated from the routes and commands.

The pages need no login. They contain no script, load nothing, and reveal nothing about this broker except its version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Final

from rabbitlike import __version__
from rabbitlike.management.http.routing import LateRoute

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

#: Content-Security-Policy of these pages.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top; padding: .3em .8em }
tr { border-bottom: 1px solid #ddd } code, pre { font: 13px/1.5 ui-monospace, monospace }
pre { background: #f4f4f4; padding: 1em; overflow-x: auto } a { color: #b54a00 }
"""
#: In the order shown.
_METHODS: Final = ("GET", "PUT", "POST", "DELETE")
#: `{vhost:name}`: a parameter and its path convertor.
_CONVERTOR: Final = re.compile(r":\w+}")
#: The part of a docstring that is for developers only.
_ASIDE: Final = re.compile(r"\s*parity(:.*)?$", re.DOTALL)

_CLI: Final = """
<p><a href="/cli/rabbitmqadmin">rabbitmqadmin</a> is one file that needs Python 3.9 or newer and nothing else. It takes
the commands and options of RabbitMQ 3.x's script of this name, which works with this broker as well.</p>
<pre>curl -O http://HOST:15672/cli/rabbitmqadmin
python3 rabbitmqadmin --host HOST declare queue name=orders durable=true
python3 rabbitmqadmin --host HOST list queues name messages
python3 rabbitmqadmin --help</pre>
<p>The command <code>rabbitlike</code>, which comes with the broker, does more: it follows messages, traces and the log,
moves and deletes single messages, and completes names in a shell.</p>
<pre>rabbitlike --help
rabbitlike queues list
rabbitlike top</pre>
<p>Both use the <a href="/api/index.html">HTTP API</a>.</p>
"""


def _page(title: str, content: str) -> str:
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>{content}"
        f"<p>rabbitlike {escape(__version__)}</p></body></html>\n"
    )


def cli_page() -> str:
    return _page("Command line tools", _CLI)


def api_page(routes: Iterable[BaseRoute]) -> str:
    """A table of all paths and methods."""
    by_path: dict[str, dict[str, str]] = {}
    for route in routes:
        if isinstance(route, LateRoute) and route.include_in_schema:
            path = _CONVERTOR.sub("}", route.path)
            by_path.setdefault(path, {}).update(dict.fromkeys(route.methods or (), _meaning(route)))
    rows = "".join(
        f"<tr><td>{method}</td><td><code>{escape(path)}</code></td><td>{escape(methods[method])}</td></tr>\n"
        for path, methods in sorted(by_path.items())
        for method in _METHODS
        if method in methods
    )
    content = (
        "<p>RabbitMQ's HTTP API, and more. Names in paths are percent-encoded, each by itself: the vhost"
        " <code>/</code> is <code>%2F</code>. Bodies and answers are JSON; logins are HTTP Basic."
        ' <a href="/api/openapi.json">/api/openapi.json</a> describes fields and parameters.</p>'
        f"<table><tr><th></th><th>path</th><th></th></tr>\n{rows}</table>"
    )
    return _page("HTTP API", content)


def _meaning(route: LateRoute) -> str:
    """The first paragraph of the route's docstring, else the function's name."""
    told = _ASIDE.sub("", (route.endpoint.__doc__ or "").partition("\n\n")[0])
    return " ".join(told.split()) or route.endpoint.__name__.replace("_", " ")

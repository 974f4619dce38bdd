"""Decides which web pages may change something: those of the broker's own origin, and of origins an operator lists.

A browser sends its stored credentials with any request to the broker, whichever page makes it, and a form or a
`text/plain` POST needs no preflight (CSRF). Browsers report the origin of a request in `Sec-Fetch-Site` and `Origin`;
tools send neither and are not affected. Requests that change nothing are not checked: the page cannot read the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from rabbitlike.management.http.errors import ApiError

if TYPE_CHECKING:
    from starlette.types import Scope

ANY: Final = "*"
_SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
#: Values that browsers send for the broker's own pages, and for addresses that a user typed.
_OWN_SITE: Final = frozenset(("same-origin", "none"))
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
#: Maximum characters of an origin repeated in an answer.
_MAX_SHOWN: Final = 100


def check_origin(scope: Scope, allowed: Collection[str]) -> None:
    """Raise 403 for a request that may change something and comes from a page of another origin, not in `allowed`."""
    if scope["method"] in _SAFE_METHODS or ANY in allowed:
        return
    headers = Headers(scope=scope)
    origins = headers.getlist("origin")
    site = headers.get("sec-fetch-site")
    if site is None:
        is_own = all(_is_own(origin, headers.get("host", ""), scope["scheme"]) for origin in origins)
    else:
        # Takes precedence over Origin: a proxy in front may have changed Host, but a page cannot set this header.
        is_own = site.lower() in _OWN_SITE
    if is_own or (origins and all(origin in allowed for origin in origins)):
        return
    said = f"origin {origins[0][:_MAX_SHOWN]!r}" if origins else "the page's origin"
    raise ApiError(403, "forbidden", f"Cross-site request refused: {said} is not listed in management_cors_origins")


def _is_own(origin: str, host: str, scheme: str) -> bool:
    """Whether the request was sent to `origin`. A proxy in front may serve https and forward http."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in _DEFAULT_PORTS or (scheme == "https" and parts.scheme != "https"):
        return False
    default = _DEFAULT_PORTS[parts.scheme]
    return bool(host) and parts.netloc.lower().removesuffix(default) == host.lower().removesuffix(default)

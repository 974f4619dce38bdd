"""Names in paths: `/queues/{vhost:name}/{queue:name}`, where `%2F` is the vhost `/` and not two slashes.

Frameworks decode a path before they split it at slashes. Here the undecoded path is matched (middleware.py), and each
name is decoded by itself.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor


class NameConvertor(Convertor[str]):
    """One path segment that holds a name."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="surrogateescape")

    def to_string(self, value: str) -> str:
        return quote(value, safe="", errors="surrogateescape")


register_url_convertor("name", NameConvertor())

"""The router every resource has one of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, routing

from rabbitlike.management.replies import Reply


class Router(APIRouter):
    """Routes under /api, whose answers are written by `replies`. Made at import, which a thread does; see api.py."""

    def __init__(self, tag: str = "", prefix: str = "/api") -> None:
        super().__init__(prefix=prefix, tags=[tag] if tag else None, default_response_class=Reply)

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().add_api_route(path, endpoint, **options)
        _tell_where(endpoint)


def _tell_where(endpoint: Callable[..., Any]) -> None:
    """For its texts of errors FastAPI finds out where a function stands by reading the file, at the first request and
    for milliseconds in which the broker does nothing else. It is known already."""
    known = getattr(routing, "_endpoint_context_cache", None)
    code = getattr(endpoint, "__code__", None)
    if isinstance(known, dict) and code is not None:
        known[id(endpoint)] = {"file": code.co_filename, "line": code.co_firstlineno, "function": endpoint.__name__}

"""The router every resource has one of."""

from __future__ import annotations

from fastapi import APIRouter

from rabbitlike.management.replies import Reply


class Router(APIRouter):
    """Routes under /api, whose answers are written by `replies`. Made at import, which a thread does; see api.py."""

    def __init__(self, tag: str = "", prefix: str = "/api") -> None:
        super().__init__(prefix=prefix, tags=[tag] if tag else None, default_response_class=Reply)

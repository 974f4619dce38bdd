"""Reference pages of the API and the command line tools. parity: at RabbitMQ's paths, without a login."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from rabbitlike.management import admin_script
from rabbitlike.management.http.routing import Router
from rabbitlike.management.reference_page import POLICY, api_page, cli_page

router = Router(prefix="")

_HEADERS: Final = {"content-security-policy": POLICY}
_SCRIPT: Final = Path(admin_script.__file__).read_bytes()


@router.get("/api", include_in_schema=False, response_model=None)
@router.get("/stats", include_in_schema=False, response_model=None)
@router.get("/doc/stats.html", include_in_schema=False, response_model=None)
async def go_to_api() -> Response:
    return RedirectResponse("/api/index.html", 301)


@router.get("/cli", include_in_schema=False, response_model=None)
async def go_to_cli() -> Response:
    return RedirectResponse("/cli/index.html", 301)


@router.get("/api/index.html", include_in_schema=False, response_model=None)
async def read_api(request: Request) -> Response:
    return HTMLResponse(api_page(request.app.routes), headers=_HEADERS)


@router.get("/cli/index.html", include_in_schema=False, response_model=None)
async def read_cli() -> Response:
    return HTMLResponse(cli_page(), headers=_HEADERS)


@router.get("/cli/rabbitmqadmin", include_in_schema=False, response_model=None)
async def read_script() -> Response:
    """The script rabbitmqadmin: our own in Python, with the commands of RabbitMQ's."""
    headers = {"content-disposition": 'attachment; filename="rabbitmqadmin"'}
    return Response(_SCRIPT, media_type="application/octet-stream", headers=headers)

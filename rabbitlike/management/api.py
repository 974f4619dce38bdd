"""Puts the API together: routes, refusals, limits."""

from __future__ import annotations

from fastapi import FastAPI

from rabbitlike import __version__
from rabbitlike.management import errors
from rabbitlike.management.context import Context
from rabbitlike.management.paths import RawPaths
from rabbitlike.management.routes import ROUTERS


def create_api(context: Context) -> FastAPI:
    api = FastAPI(
        title="rabbitlike", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )
    api.state.context = context
    errors.install(api)
    for router in ROUTERS:
        api.include_router(router)
    api.add_middleware(RawPaths)
    return api

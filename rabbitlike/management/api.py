"""Creates the API: routes, errors, limits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from rabbitlike import __version__
from rabbitlike.management.auth import login
from rabbitlike.management.context import Context
from rabbitlike.management.http import errors
from rabbitlike.management.http.middleware import ApiMiddleware, allowed_methods
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.routes import ROUTERS

if TYPE_CHECKING:
    from starlette.types import Scope


#: parity: RabbitMQ's value.
CORS_MAX_AGE_S: Final = 1800


def create_api(context: Context) -> FastAPI:
    api = FastAPI(
        title="rabbitlike",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # routes/description.py
        redirect_slashes=False,
        default_response_class=Reply,
    )
    api.state.context = context
    errors.install(api, partial(allowed_methods, ROUTERS))
    for router in ROUTERS:
        # Not include_router: at the first request it would create every route again, half a second on the loop.
        api.router.routes.extend(router.routes)

    def check(scope: Scope) -> object:
        return login(scope, context)

    origins = context.settings.management_cors_origins
    api.add_middleware(ApiMiddleware, routers=ROUTERS, login=check, origins=frozenset(origins))
    if origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Reason"],
            expose_headers=["Location"],
            max_age=CORS_MAX_AGE_S,
        )
    # Otherwise the first request would build it.
    api.middleware_stack = api.build_middleware_stack()
    return api

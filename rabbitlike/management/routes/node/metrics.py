"""Prometheus metrics: on the management port for monitors, on a separate port without a login."""

from __future__ import annotations

from functools import partial

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from rabbitlike.management.auth import Monitor
from rabbitlike.management.context import Context, Here
from rabbitlike.management.http import errors
from rabbitlike.management.http.middleware import allowed_methods
from rabbitlike.management.http.routing import Router
from rabbitlike.management.prometheus.text import CONTENT_TYPE, Selection, exposition

router = Router("metrics", prefix="")
open_router = Router("metrics", prefix="")


def _answer(here: Context, asked: Selection) -> StreamingResponse:
    return StreamingResponse(exposition(here, asked), headers={"content-type": CONTENT_TYPE})


def _detailed(request: Request) -> Selection:
    """parity: unknown vhosts are ignored; without `vhost` all are selected."""
    given = request.query_params
    vhosts = frozenset(given.getlist("vhost")) if "vhost" in given else None
    return Selection("detailed", frozenset(given.getlist("family")), vhosts)


@router.get("/metrics")
async def metrics(here: Here, caller: Monitor) -> StreamingResponse:
    return _answer(here, Selection())


@router.get("/metrics/per-object")
async def metrics_per_object(here: Here, caller: Monitor) -> StreamingResponse:
    return _answer(here, Selection("per-object"))


@router.get("/metrics/detailed")
async def metrics_detailed(request: Request, here: Here, caller: Monitor) -> StreamingResponse:
    return _answer(here, _detailed(request))


@open_router.get("/metrics")
async def open_metrics(here: Here) -> StreamingResponse:
    return _answer(here, Selection())


@open_router.get("/metrics/per-object")
async def open_metrics_per_object(here: Here) -> StreamingResponse:
    return _answer(here, Selection("per-object"))


@open_router.get("/metrics/detailed")
async def open_metrics_detailed(request: Request, here: Here) -> StreamingResponse:
    return _answer(here, _detailed(request))


def create_metrics_api(context: Context) -> FastAPI:
    """The app for the port without a login: it serves only metrics."""
    api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    api.state.context = context
    errors.install(api, partial(allowed_methods, (open_router,)))
    api.router.routes.extend(open_router.routes)
    return api

"""The JSON Schemas of queues and exchanges: a list, and counts of messages that did not conform.

Arguments and policies set them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response

from rabbitlike.broker.views import text
from rabbitlike.management.auth import Member
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.schemas.schema import Schema
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.management.listing.shown import View

router = Router("schemas")

ORDER: Final = ("vhost", "kind", "name")


@router.get("/schemas", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Member) -> Response:
    return await lists.answer(request, _found(shown.vhosts_of(caller)), order=ORDER)


@router.get("/schemas/{vhost:name}", response_model=None, openapi_extra=lists.PAGED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    return await lists.answer(request, _found([caller.vhost(vhost)]), order=ORDER)


def _found(vhosts: list[Vhost]) -> Iterator[View]:
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            if exchange.schema is not None:
                yield _view(vhost, "exchange", exchange.name, exchange.schema, exchange.violations)
        for queue in list(vhost.queues.values()):
            if queue.settings.schema is not None:
                yield _view(vhost, "queue", queue.name, queue.settings.schema, queue.violations)


def _view(vhost: Vhost, kind: str, name: str, schema: Schema, violations: int) -> View:
    return {
        "vhost": text(vhost.name),
        "kind": kind,
        "name": text(name),
        "action": schema.action,
        "violations": violations,
        "schema": json.loads(schema.text),
    }

"""The JSON Schemas of queues and exchanges: which there are, and how often something did not conform.

They are set as arguments or by policies, and only listed here.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from fastapi import Request, Response

from rabbitlike.broker.views import text
from rabbitlike.management import lists, shown
from rabbitlike.management.auth import Member
from rabbitlike.management.routing import Router

if TYPE_CHECKING:
    from rabbitlike.broker.schemas import Schema
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.management.shown import View

router = Router("schemas")

#: Queues that are looked at before others have a turn: well under a millisecond.
STRIDE: Final = 1000
ORDER: Final = ("vhost", "kind", "name")


@router.get("/schemas", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Member) -> Response:
    return await lists.answer(request, await _found(shown.vhosts_of(caller)), order=ORDER)


@router.get("/schemas/{vhost:name}", response_model=None, openapi_extra=lists.PAGED)
async def read_those_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    return await lists.answer(request, await _found([caller.vhost(vhost)]), order=ORDER)


async def _found(vhosts: list[Vhost]) -> list[View]:
    found: list[View] = []
    for vhost in vhosts:
        found += [
            _view(vhost, "exchange", exchange.name, exchange.schema, exchange.violations)
            for exchange in vhost.exchanges.values()
            if exchange.schema is not None
        ]
        for count, queue in enumerate(list(vhost.queues.values()), 1):
            if queue.settings.schema is not None:
                found.append(_view(vhost, "queue", queue.name, queue.settings.schema, queue.violations))
            if count % STRIDE == 0:
                await asyncio.sleep(0)
    return found


def _view(vhost: Vhost, kind: str, name: str, schema: Schema, violations: int) -> View:
    return {
        "vhost": text(vhost.name),
        "kind": kind,
        "name": text(name),
        "action": schema.action,
        "violations": violations,
        "schema": json.loads(schema.text),
    }

"""Traces from the event log: the events of one message by its id, and events by queue, kind and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query, Request, Response

from rabbitlike.broker.tracing.event_columns import EVENTS
from rabbitlike.broker.tracing.event_search import Question, search
from rabbitlike.management.auth import Caller, Monitor
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists

if TYPE_CHECKING:
    from rabbitlike.management.http.replies import View

router = Router("traces")

#: Maximum age of the event files searched if no time is given.
FILES_MS = 86_400_000

Files = Annotated[Literal["true", "false"], Query(description="Whether the files of the event log are searched too.")]
Since = Annotated[int | None, Query(description="Not before this time, in ms.", ge=0, le=253_402_300_799_999)]
Until = Annotated[int | None, Query(description="Not after this time, in ms.", ge=0, le=253_402_300_799_999)]
Limit = Annotated[int, Query(description="Maximum number of events, newest first.", ge=1, le=10_000)]


@router.get("/traces/{vhost:name}/{message_id:name}", response_model=None)
async def read_life(
    request: Request,
    caller: Monitor,
    vhost: str,
    message_id: str,
    files: Files = "false",
    since: Since = None,
    until: Until = None,
    limit: Limit = 1000,
) -> Response:
    """All events of the messages with this id, oldest first; 404 if there are none."""
    caller.vhost(vhost)
    question = Question(vhost, message_id, since_ms=since, until_ms=until, limit=limit)
    found = await _find(caller, question, with_files=files == "true")
    if not found:
        raise not_found()
    beside = {"vhost": vhost, "message_id": message_id}
    return await lists.written(request, found, lists.itself, beside, "events")


@router.get("/trace-events/{vhost:name}", response_model=None)
async def read_events(
    request: Request,
    caller: Monitor,
    vhost: str,
    queue: Annotated[str | None, Query(description="Events of this queue.")] = None,
    event: Annotated[str | None, Query(description="Events of this kind.")] = None,
    files: Files = "false",
    since: Since = None,
    until: Until = None,
    limit: Limit = 1000,
) -> Response:
    """Events of a vhost, oldest first."""
    caller.vhost(vhost)
    if event is not None and event not in EVENTS:
        raise bad_request(f"there is no event '{event}'")
    question = Question(vhost, None, queue, event, since, until, limit)
    found = await _find(caller, question, with_files=files == "true")
    return await lists.written(request, found, lists.itself)


async def _find(caller: Caller, question: Question, *, with_files: bool) -> list[View]:
    here = caller.context
    slices = lists.Slices()
    found: dict[object, View] = {}
    for row in search(here.broker.events, question, here.node):
        if row is not None:
            found[row["seq"]] = row
        await slices.pause()
    look = here.search_event_files
    if with_files and look is not None:
        if question.since_ms is None:
            question = question._replace(since_ms=max(0, here.broker.clock.now_ms() - FILES_MS))
        for row in await asyncio.to_thread(look, question):
            # Recent events are both in files and in memory.
            found.setdefault(row["seq"], row)
    return [found[seq] for seq in sorted(found, key=_number)][-question.limit :]


def _number(seq: object) -> int:
    return seq if isinstance(seq, int) else 0

"""The dead letters of a queue: list, retry and delete them. Beyond RabbitMQ."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field, JsonValue

from rabbitlike.broker.queues.queue import Queue
from rabbitlike.management import dead_letters
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.dead_letters import DeadLetterFilter, Operation
from rabbitlike.management.http.bodies import Body
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.messages import filter_from, filter_of
from rabbitlike.management.routes.topology.queues import readable
from rabbitlike.management.turns import stored

router = Router("dead letters")

MAX_NAMED = 10_000

Reason = Annotated[str | None, Query(description="Only those that died of this.")]


@router.get("/queues/{vhost:name}/{queue:name}/dlq", response_model=None)
async def read(
    request: Request,
    caller: Member,
    vhost: str,
    queue: str,
    reason: Reason = None,
    after: Annotated[str | None, Query(description="What an earlier answer had as `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    encoding: Literal["auto", "base64"] = "auto",
    truncate: Annotated[int | None, Query(ge=0)] = 50_000,
) -> Response:
    """List the dead letters of this queue without changing them.

    Filters are `reason`, `header.<name>`, `property.<name>`, `text`, `exchange` and `routing_key`; the last two apply
    to the publish that brought the message to this queue.
    """
    found = readable(caller, vhost, queue)
    sources = dead_letters.sources_of(caller, found)
    wanted = DeadLetterFilter.of(found, filter_of(request.query_params), reason)
    page = await dead_letters.page(sources, wanted, limit, after)
    return await lists.written(
        request,
        page.dead_letters,
        partial(dead_letters.dead_letter_view, encoding=encoding, truncate=truncate),
        {
            "scanned": page.scanned,
            "next": page.following,
            "dead_letter_queues": [source.name for source in sources],
        },
    )


class Chosen(Body):
    """Dead letters selected by their ids, by a filter, or all."""

    ids: Annotated[list[str | int], Field(max_length=MAX_NAMED)] | None = None
    filter: dict[str, JsonValue] | None = None
    all: bool = False
    count: Annotated[int, Field(ge=1)] | None = None


async def _apply(here: Here, caller: Caller, queue: Queue, body: Chosen, operation: Operation) -> tuple[int, int]:
    sources = dead_letters.sources_of(caller, queue)
    if sum((body.ids is not None, body.filter is not None, body.all)) != 1:
        raise bad_request("say which letters: ids, filter or all")
    if body.ids is not None:
        counts = await dead_letters.for_named(queue, sources, [str(each) for each in body.ids], operation)
    else:
        given = dict(body.filter or {})
        reason = given.pop("reason", None)
        if reason is not None and not isinstance(reason, str):
            raise bad_request("filter.reason: expected a string")
        wanted = DeadLetterFilter.of(queue, filter_from(given), reason)
        counts = await dead_letters.for_all(queue, sources, wanted, operation, body.count)
    await stored(here.broker)
    return counts


@router.post("/queues/{vhost:name}/{queue:name}/dlq/retry", response_model=None)
async def retry_many(here: Here, caller: Member, vhost: str, queue: str, body: Chosen) -> dict[str, int]:
    """Return dead letters to this queue as new messages. A dead letter that the queue has no space for stays."""
    found = readable(caller, vhost, queue)
    caller.permit_in(found.vhost)("write", "exchange", "")
    matched, done = await _apply(here, caller, found, body, dead_letters.put_back(found))
    return {"retried": done, "matched": matched}


async def retry_dead_letter(here: Here, caller: Caller, found: Queue, letter: str) -> None:
    caller.permit_in(found.vhost)("write", "exchange", "")
    sources = dead_letters.sources_of(caller, found)
    _, done = await dead_letters.for_named(found, sources, [letter], dead_letters.put_back(found))
    if not done:
        source, position = dead_letters.find(sources, letter)
        if dead_letters.is_there(found, source, position):
            raise bad_request("the queue is full")
        raise not_found()
    await stored(here.broker)


@router.post("/queues/{vhost:name}/{queue:name}/dlq/{letter:name}/retry", response_model=None)
async def retry_one(here: Here, caller: Member, vhost: str, queue: str, letter: str) -> dict[str, int]:
    """Return one dead letter to this queue."""
    await retry_dead_letter(here, caller, readable(caller, vhost, queue), letter)
    return {"retried": 1}


@router.delete("/queues/{vhost:name}/{queue:name}/dlq/{letter:name}", status_code=204, response_model=None)
async def delete_one(here: Here, caller: Member, vhost: str, queue: str, letter: str) -> Response:
    """Delete one dead letter permanently."""
    found = readable(caller, vhost, queue)
    sources = dead_letters.sources_of(caller, found)
    _, done = await dead_letters.for_named(found, sources, [letter], dead_letters.discard(found))
    if not done:
        raise not_found()
    await stored(here.broker)
    return Response(status_code=204)


@router.delete("/queues/{vhost:name}/{queue:name}/dlq", response_model=None)
async def delete_many(
    request: Request, here: Here, caller: Member, vhost: str, queue: str, reason: Reason = None
) -> dict[str, int]:
    """Delete all dead letters of this queue, or those that match the same filters as in the list."""
    found = readable(caller, vhost, queue)
    sources = dead_letters.sources_of(caller, found)
    wanted = DeadLetterFilter.of(found, filter_of(request.query_params), reason)
    _, done = await dead_letters.for_all(found, sources, wanted, dead_letters.discard(found))
    await stored(here.broker)
    return {"deleted": done}

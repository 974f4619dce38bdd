"""Messages: publish and get them; and beyond RabbitMQ, look at them without a change, delete and move single ones."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

from fastapi import Query, Request, Response
from pydantic import BeforeValidator, Field, JsonValue

from rabbitlike.broker.exchanges import Exchange
from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.publishing import verbs
from rabbitlike.broker.publishing.verbs import Fetched
from rabbitlike.broker.queues import browse
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.views import text
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Context, Here
from rabbitlike.management.http.bodies import Body, Number, checked_name, exchange_name
from rabbitlike.management.http.errors import ApiError, bad_request, closing, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.listing.scanning import MAX_PAYLOADS, cursor_of, scan, token_of
from rabbitlike.management.messages import (
    filter_from,
    filter_of,
    message_view,
    payload_view,
    properties_view,
    to_payload,
    to_properties,
)
from rabbitlike.management.polling import LONGEST_WAIT_S, Poll
from rabbitlike.management.routes.topology.queues import readable
from rabbitlike.management.turns import check_unblocked, stored, turn
from rabbitlike.protocol.errors import AmqpError

if TYPE_CHECKING:
    from collections.abc import Callable

router = Router("messages")

MAX_MOVED: Final = 10_000
#: Approximate octets of a message in an answer besides its body, counted because many bodies may be empty.
ENVELOPE: Final = 256
#: Messages moved or settled in one turn.
STRIDE: Final = 20

#: Default time to settle messages got with ackmode `manual`.
ACK_DEADLINE_S: Final = 30.0

REJECTED: Final = "rejected Unable to publish message. Check queue limits."


def _properties(value: object) -> object:
    return {} if value == [] else value


class Publication(Body):
    routing_key: str
    properties: Annotated[dict[str, JsonValue], BeforeValidator(_properties)]
    payload: JsonValue
    payload_encoding: str


@router.post("/exchanges/{vhost:name}/{exchange:name}/publish", response_model=None)
async def publish(here: Here, caller: Member, vhost: str, exchange: str, body: Publication) -> dict[str, bool]:
    home = caller.vhost(vhost, "vhost_not_found")
    name = exchange_name(exchange)
    if name not in home.exchanges:
        raise not_found("exchange_not_found")
    if not isinstance(body.payload, str):
        raise bad_request("payload_not_string")
    payload = to_payload(body.payload, body.payload_encoding)
    properties = to_properties(body.properties)
    check_unblocked(here.broker)
    key = checked_name(body.routing_key, "routing key")
    try:
        with turn(here.broker):
            published = verbs.publish(home, name, key, properties, payload, caller.user)
    except AmqpError as error:
        raise bad_request(str(error)) from None  # parity: 400 whatever the code, even for missing permissions
    if not published.is_accepted:
        raise bad_request(REJECTED)
    if published.is_stored:
        await stored(here.broker)
    return {"routed": published.is_routed}


class Get(Body):
    ackmode: Literal["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false", "manual"]
    count: Number
    encoding: JsonValue
    truncate: Number | None = None


#: A requeue after a get is not a failed attempt, unless the message is rejected.
_SETTLES: Final = {
    "ack_requeue_true": Settle.RETURN,
    "reject_requeue_true": Settle.REQUEUE,
    "reject_requeue_false": Settle.REJECT,
}


Wait = Annotated[
    float, Query(alias="wait", ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for the first message.")
]
AckDeadline = Annotated[
    float | None,
    Query(
        alias="ack_deadline",
        gt=0,
        le=315_360_000,
        description="Seconds until unsettled messages are requeued; default 30.",
    ),
]


@router.post("/queues/{vhost:name}/{queue:name}/get", response_model=None)
async def get(
    request: Request,
    here: Here,
    caller: Member,
    vhost: str,
    queue: str,
    body: Get,
    wait_s: Wait = 0,
    ack_deadline_s: AckDeadline = None,
) -> Response:
    """Get messages as basic.get does. parity: they are requeued or settled after all have been got.

    Beyond RabbitMQ: `wait` seconds for the first message. With ackmode `manual`, the caller has `ack_deadline` seconds
    to settle them: `/api/messages/{vhost}/{queue}/{position}/ack` and `nack` settle one, `extend` grants more time.
    """
    if body.encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    if ack_deadline_s is not None and body.ackmode != "manual":
        raise bad_request("ack_deadline goes with ackmode manual")
    deadline_ms = round((ACK_DEADLINE_S if ack_deadline_s is None else ack_deadline_s) * 1000)
    with closing():
        found = readable(caller, vhost, queue)
        got = await _fetch(here, caller, found, body, deadline_ms)
        if not got and wait_s and body.count:
            poll = Poll(here.broker, found, wait_s)
            while not got and await poll.is_worth_a_try(request):
                got = await _fetch(here, caller, found, body, deadline_ms)
            if found.deleted:
                raise not_found("queue_not_found")
    if got and found.durable and body.ackmode in ("ack_requeue_false", "reject_requeue_false"):
        await stored(here.broker)
    elif got and found.hold_until:
        with suppress(ApiError):  # even if the disk refuses writes, messages are delivered
            await stored(here.broker)
    encoding, truncate = str(body.encoding), body.truncate

    def show(each: Fetched) -> dict[str, object]:
        message = each.message
        return {
            "payload_bytes": len(message.body),
            "redelivered": each.redelivered,
            "exchange": text(exchange_of(message.address)),
            "routing_key": text(routing_key_of(message.address)),
            "message_count": each.message_count,
            "properties": properties_view(each.properties),
            **payload_view(message.body, encoding, truncate),
            **({"position": message.position} if body.ackmode == "manual" else {}),
        }

    return await lists.written(request, got, show)


async def _fetch(here: Context, caller: Caller, queue: Queue, body: Get, deadline_ms: int) -> list[Fetched]:
    """Up to `count` messages, settled or leased according to the ackmode."""
    no_ack = body.ackmode == "ack_requeue_false"
    how = _SETTLES.get(body.ackmode)
    got: list[Fetched] = []
    settled = size = 0
    slices = lists.Slices()
    try:
        # parity: a negative count means no limit.
        while len(got) != body.count and size < MAX_PAYLOADS:
            with turn(here.broker):
                fetched = verbs.fetch(queue, 1, caller.user, no_ack=no_ack)
                if body.ackmode == "manual":
                    verbs.lease(queue, fetched, deadline_ms)
            if not fetched:
                break
            got += fetched
            size += len(fetched[0].message.body) + ENVELOPE
            await slices.pause()
        while how is not None and settled < len(got):
            few = got[settled : settled + STRIDE]
            settled += len(few)
            with turn(here.broker):
                verbs.settle(queue, few, how)
            await slices.pause()
    finally:
        if how is not None and settled < len(got):  # the caller disconnected
            with turn(here.broker):
                verbs.settle(queue, got[settled:], how)
    return got


# Beyond RabbitMQ


@router.get("/queues/{vhost:name}/{queue:name}/messages", response_model=None)
async def look(
    request: Request,
    caller: Member,
    vhost: str,
    queue: str,
    after: Annotated[str | None, Query(description="What an earlier answer had as `next`.")] = None,
    offset: Annotated[int, Query(ge=0, le=1 << 53, description="Messages to skip.")] = 0,
    newer_than: Annotated[int, Query(ge=0, lt=1 << 63, description="Only positions above this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    encoding: Literal["auto", "base64"] = "auto",
    truncate: Annotated[int | None, Query(ge=0)] = 50_000,
) -> Response:
    """List ready messages in delivery order, without a change.

    Filters are `header.<name>`, `property.<name>`, `exchange`, `routing_key` and `text`, which the body must contain. A
    request scans a limited number of messages: `next` is the place to continue from, null at the end. `last` is the
    last position given: pass it as `newer_than` to get only newer messages.
    """
    found = readable(caller, vhost, queue)
    wanted = filter_of(request.query_params)
    walk = browse.Walk(found, offset=offset, after=cursor_of(after), newer_than=newer_than)
    last = found.last_position
    chosen, scanned, place = await scan(walk, found, wanted.test, limit)
    beside = {"scanned": scanned, "next": token_of(walk, place), "last": last}
    return await lists.written(request, chosen, lambda seen: message_view(seen.message, encoding, truncate), beside)


@router.delete("/queues/{vhost:name}/{queue:name}/messages/{position}", status_code=204, response_model=None)
async def delete(
    here: Here, caller: Member, vhost: str, queue: str, position: Annotated[int, Field(ge=0, lt=1 << 63)]
) -> Response:
    """Delete one ready message, without dead-lettering."""
    found = readable(caller, vhost, queue)
    with turn(here.broker):
        count = browse.remove(found, [position])
    if not count:
        raise not_found()
    if found.durable:
        await stored(here.broker)
    return Response(status_code=204)


class Destination(Body):
    """A queue, or an exchange with a routing key; without a key each message keeps its own."""

    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None


class Move(Body):
    """Messages by their positions, or the first `count` that match a filter."""

    positions: Annotated[list[Annotated[int, Field(ge=0, lt=1 << 63)]], Field(max_length=MAX_MOVED)] | None = None
    filter: dict[str, JsonValue] | None = None
    count: Annotated[int, Field(ge=1, le=MAX_MOVED)] | None = None
    after: str | None = None
    destination: Destination


@router.post("/queues/{vhost:name}/{queue:name}/messages/move", response_model=None)
async def move(here: Here, caller: Member, vhost: str, queue: str, body: Move) -> dict[str, object]:
    """Move ready messages. A message that no queue accepts stays where it is."""
    source = readable(caller, vhost, queue)
    target, key = _target(caller, source, body.destination)
    may_use = _usable_keys(caller, target)
    following = None
    scanned = 0
    if body.positions is not None:
        if body.filter is not None:
            raise bad_request("give positions or a filter, not both")
        positions = list(dict.fromkeys(body.positions))
    elif body.filter is None and body.count is None:
        raise bad_request("say which messages: positions, filter or count")
    else:
        walk = browse.Walk(source, after=cursor_of(body.after))
        wanted = filter_from(body.filter or {})
        chosen, scanned, place = await scan(walk, source, wanted.test, body.count or MAX_MOVED)
        positions = [seen.position for seen in chosen]
        following = token_of(walk, place)
    moved = 0
    slices = lists.Slices()
    for at in range(0, len(positions), STRIDE):
        if source.deleted or (isinstance(target, Queue) and target.deleted):
            break
        with turn(here.broker):
            moved += browse.move(source, positions[at : at + STRIDE], target, key, may_use)
        await slices.pause()
    await stored(here.broker)
    return {"moved": moved, "matched": len(positions), "scanned": scanned, "next": following}


def _target(caller: Caller, source: Queue, destination: Destination) -> tuple[Queue | Exchange, str | None]:
    """The target queue or exchange and the routing key. Checks that the caller may publish there."""
    home = source.vhost
    permit = caller.permit_in(home)
    if (destination.queue is None) == (destination.exchange is None):
        raise bad_request("destination: give a queue or an exchange")
    if destination.queue is not None:
        permit("write", "exchange", "")
        if destination.queue not in home.queues:
            raise not_found("queue_not_found")
        return home.queue(destination.queue), None
    name = exchange_name(destination.exchange or "")
    permit("write", "exchange", name)
    if name not in home.exchanges:
        raise not_found("exchange_not_found")
    key = None if destination.routing_key is None else checked_name(destination.routing_key, "routing key")
    exchange = home.publish_target(name)
    if exchange.kind == "topic" and key is not None:
        caller.permit_topic_in(home)("write", name, key)
    return exchange, key


def _usable_keys(caller: Caller, target: Queue | Exchange) -> Callable[[str], bool]:
    """Which routing keys the caller may publish with, when each message keeps its own."""
    if not isinstance(target, Exchange) or target.kind != "topic":
        return lambda key: True
    return partial(caller.context.broker.permissions.allows_topic, caller.user.name, target.vhost, "write", target.name)

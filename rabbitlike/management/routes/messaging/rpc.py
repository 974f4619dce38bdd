"""RPC over HTTP: publish a request and wait for its direct reply. Beyond RabbitMQ."""

from __future__ import annotations

import asyncio
from secrets import token_urlsafe
from time import perf_counter
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import Field, JsonValue

from rabbitlike.broker.publishing import verbs
from rabbitlike.broker.publishing.reply_names import make_reply_name
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Context, Here
from rabbitlike.management.http.bodies import Arguments, Body, checked_name, exchange_name
from rabbitlike.management.http.errors import ApiError, bad_request, closing, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.messages import payload_view, properties_view, to_payload, to_properties
from rabbitlike.management.turns import check_unblocked, turn
from rabbitlike.protocol.properties import Properties

router = Router("rpc")

TIMEOUT_S: Final = 30.0
LONGEST_S: Final = 3600.0

Timeout = Annotated[float, Query(alias="timeout", gt=0, le=LONGEST_S, description="Seconds to wait for the reply.")]


class Requested(Body):
    payload: str = ""
    payload_encoding: str = "string"
    properties: Arguments = Field(default_factory=dict)
    #: Used if the path contains no routing key.
    routing_key: str = ""


class PendingReply:
    """The pending reply to one request, under a unique reply name."""

    def __init__(self, correlation_id: str) -> None:
        self.name = make_reply_name()
        self._correlation_id = correlation_id
        self.reply: asyncio.Future[tuple[Properties, bytes] | None] = asyncio.get_running_loop().create_future()

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> bool:
        reply = Properties(properties)
        # A reply without correlation id is accepted: the reply name is unique.
        if not self.reply.done() and reply.correlation_id in (None, self._correlation_id):
            self.reply.set_result((reply, body))
        return True

    def give_up(self) -> None:
        if not self.reply.done():
            self.reply.set_result(None)


@router.post("/rpc/{vhost:name}/{exchange:name}/{routing_key:name}", response_model=None)
async def call(
    request: Request,
    here: Here,
    caller: Member,
    vhost: str,
    exchange: str,
    routing_key: str,
    body: Requested,
    timeout_s: Timeout = TIMEOUT_S,
) -> Response:
    """Publish a request and answer with the first reply: 504 if none arrives in time, 404 if no queue takes it.

    The server replies to its `reply_to` through the default exchange, with its `correlation_id`.
    """
    return lists.one(request, await _ask(here, caller, vhost, exchange, routing_key, body, timeout_s))


@router.post("/rpc/{vhost:name}/{exchange:name}", response_model=None)
async def call_with_key_in_body(
    request: Request,
    here: Here,
    caller: Member,
    vhost: str,
    exchange: str,
    body: Requested,
    timeout_s: Timeout = TIMEOUT_S,
) -> Response:
    """Publish a request with the routing key in the body, which allows an empty key."""
    return lists.one(request, await _ask(here, caller, vhost, exchange, body.routing_key, body, timeout_s))


async def _ask(
    here: Context, caller: Caller, vhost: str, exchange: str, routing_key: str, body: Requested, timeout_s: float
) -> dict[str, object]:
    home = caller.vhost(vhost, "vhost_not_found")
    name = exchange_name(exchange)
    if name not in home.exchanges:
        raise not_found("exchange_not_found")
    key = checked_name(routing_key, "routing key")
    payload = to_payload(body.payload, body.payload_encoding)
    given = _checked(body.properties, timeout_s)
    broker = here.broker
    check_unblocked(broker)
    pending = PendingReply(str(given["correlation_id"]))
    properties = to_properties({**given, "reply_to": pending.name})
    home.replies[pending.name] = pending
    timer = broker.clock.call_later(max(1, int(timeout_s * 1000)), pending.give_up)
    started = perf_counter()
    try:
        with closing(), turn(broker):
            published = verbs.publish(home, name, key, properties, payload, caller.user)
        if not published.is_routed:
            raise not_found("NO_ROUTE")
        if not published.is_accepted:
            raise ApiError(503, "service_unavailable", "a queue is full and refused the request")
        reply = await pending.reply
    finally:
        timer.cancel()
        home.replies.pop(pending.name, None)
    if reply is None:
        raise ApiError(504, "gateway_timeout", f"no reply within {timeout_s:g} s")
    answered, octets = reply
    return {
        "correlation_id": given["correlation_id"],
        "elapsed_ms": round((perf_counter() - started) * 1000, 3),
        "payload_bytes": len(octets),
        "properties": properties_view(answered.raw),
        **payload_view(octets, "auto"),
    }


def _checked(properties: dict[str, JsonValue], timeout_s: float) -> dict[str, JsonValue]:
    if "reply_to" in properties:
        raise bad_request("reply_to: cannot be set, the reply is the answer to this request")
    correlation_id = properties.get("correlation_id")
    if correlation_id is not None and not isinstance(correlation_id, str):
        raise bad_request(["not_string", "correlation_id"])
    given = dict(properties)
    given["correlation_id"] = correlation_id or token_urlsafe(12)
    # After the timeout the reply is not wanted any more.
    given.setdefault("expiration", str(max(1, int(timeout_s * 1000))))
    return given

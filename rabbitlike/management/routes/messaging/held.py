"""Unacked messages: extend their deadline, or settle them instead of their client. Beyond RabbitMQ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from rabbitlike.broker import held
from rabbitlike.broker.settle import Settle
from rabbitlike.broker.views import instant
from rabbitlike.management.auth import Caller, Member
from rabbitlike.management.context import Here
from rabbitlike.management.http.bodies import Body, Flag
from rabbitlike.management.http.errors import ApiError, closing, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.routes.topology.queues import readable
from rabbitlike.management.turns import stored, turn

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

router = Router("messages", "/api/messages/{vhost:name}/{queue:name}/{position}")

Position = Annotated[int, Field(ge=0, lt=1 << 63)]


def _find(caller: Caller, vhost: str, name: str) -> Queue:
    with closing():
        return readable(caller, vhost, name)


def _refusal(error: held.NotHeldError) -> ApiError:
    if error.is_here:
        return ApiError(409, "conflict", "message_not_held: it is ready, or waits for its next try")
    return not_found("message_not_found")


class Extension(Body):
    #: From now.
    ms: Annotated[int, Field(ge=0, le=315_360_000_000)]


@router.post("/extend", response_model=None)
async def extend(
    here: Here, caller: Member, vhost: str, queue: str, position: Position, body: Extension
) -> dict[str, object]:
    """Extend the deadline for an unacked message: its client has `ms` milliseconds from now to settle it."""
    found = _find(caller, vhost, queue)
    try:
        with turn(here.broker):
            due_at_ms = held.extend(found, position, body.ms)
    except held.NotHeldError as error:
        raise _refusal(error) from None
    if due_at_ms is None:
        raise ApiError(409, "conflict", "no_deadline: neither the queue nor the consumer has an x-ack-timeout")
    return {"action": "extended", "due_at": instant(due_at_ms), "due_at_ms": due_at_ms}


@router.post("/ack", response_model=None)
async def ack(here: Here, caller: Member, vhost: str, queue: str, position: Position) -> dict[str, object]:
    """Ack an unacked message; a later ack or nack by its client has no effect."""
    return await _settle(here, _find(caller, vhost, queue), position, Settle.ACK)


class Nack(Body):
    requeue: Flag = True


@router.post("/nack", response_model=None)
async def nack(
    here: Here, caller: Member, vhost: str, queue: str, position: Position, body: Nack | None = None
) -> dict[str, object]:
    """Nack an unacked message. The answer tells the outcome: `requeued`, `dead_lettered`, or `dropped` if there is no
    dead-letter exchange."""
    how = Settle.RETURN if body is None or body.requeue else Settle.REJECT
    return await _settle(here, _find(caller, vhost, queue), position, how)


async def _settle(here: Here, queue: Queue, position: int, how: Settle) -> dict[str, object]:
    try:
        with turn(here.broker):
            settled = held.settle(queue, position, how)
    except held.NotHeldError as error:
        raise _refusal(error) from None
    if queue.durable:
        await stored(here.broker)
    answer: dict[str, object] = {"action": settled.action.value}
    if settled.reason is not None:
        answer["reason"] = settled.reason.value
    return answer

"""Finds, shows, retries and deletes the dead letters of a queue in all its dead-letter queues, in slices.

The id of a dead letter is its position and its dead-letter queue, `17-orders.dlq`. The position alone suffices if there
is only one dead-letter queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from rabbitlike.broker.queues import browse
from rabbitlike.broker.queues.dead_letters.dead_letter_queue import (
    dead_letter_queues,
    last_death,
    retry,
    was_dead_lettered_in,
)
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.listing import lists
from rabbitlike.management.listing.scanning import MAX_SCANNED, cursor_of, scan, token_of
from rabbitlike.management.messages import Filter, View, message_view
from rabbitlike.management.turns import turn
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.management.auth import Caller

#: Dead letters retried or deleted in one turn.
STRIDE: Final = 50

#: Applies to the dead letters at these positions of a queue; returns how many it found.
Operation: TypeAlias = "Callable[[Queue, Sequence[int]], int]"


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects dead letters of a queue. Exchange and routing key are those with which the message was published to the
    queue."""

    queue: str
    reason: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    #: Conditions on the dead letter itself.
    also: Filter = field(default_factory=Filter)

    @classmethod
    def of(cls, queue: Queue, given: Filter, reason: str | None) -> DeadLetterFilter:
        also = replace(given, exchange=None, routing_key=None)
        return cls(queue.name, reason, given.exchange, given.routing_key, also)

    def matches(self, message: Message) -> bool:
        death = last_death(message)
        return (
            death is not None
            and death.queue == self.queue
            and self.reason in (None, death.reason)
            and self.exchange in (None, death.exchange)
            and (self.routing_key is None or self.routing_key in death.routing_keys)
            and (self.also.is_empty or self.also.matches(message))
        )


def sources_of(caller: Caller, queue: Queue) -> list[Queue]:
    """The queues that hold dead letters of this queue. Raises 403 unless the caller may read all of them."""
    sources = [source for source in dead_letter_queues(queue) if source.owner is None]
    permit = caller.permit_in(queue.vhost)
    for source in sources:
        permit("read", "queue", source.name)
    return sources


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter and the queue that holds it."""

    seen: browse.Seen
    source: Queue


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """A page of dead letters, how many messages were scanned, and the value of `after` for the next page."""

    dead_letters: Sequence[DeadLetter]
    scanned: int
    following: str | None


def dead_letter_view(dead_letter: DeadLetter, encoding: str, truncate: int | None) -> View:
    message, source = dead_letter.seen.message, dead_letter.source
    view = message_view(message, encoding, truncate)
    death = last_death(message)
    assert death is not None
    properties = Properties(message.properties)
    retries = (properties.headers or Table()).get("x-retry-count")
    return {
        "id": f"{message.position}-{source.name}",
        "dead_letter_queue": source.name,
        "message_id": properties.message_id,
        "reason": death.reason,
        "deaths": death.count,
        "retry_count": retries if isinstance(retries, int) else None,
        "moved_at": message.published_at_ms,
        "first_death_at": death.time_s * 1000,
        **view,
        "exchange": death.exchange,
        "routing_key": death.routing_keys[0] if death.routing_keys else "",
    }


async def page(sources: Sequence[Queue], wanted: DeadLetterFilter, limit: int, after: str | None) -> DeadLetterPage:
    """Dead letters of the queues in order, up to `limit` or until one request has scanned MAX_SCANNED messages."""
    cursor, first = _begin(sources, after)
    dead_letters: list[DeadLetter] = []
    scanned = 0
    following: str | None = None
    for source in sources[first:]:
        walk = browse.Walk(source, after=cursor)
        cursor = None
        chosen, looked_at, reached = await scan(
            walk, source, wanted.matches, limit - len(dead_letters), MAX_SCANNED - scanned
        )
        scanned += looked_at
        dead_letters += [DeadLetter(seen, source) for seen in chosen]
        token = token_of(walk, reached)
        if token is not None and not source.deleted:
            following = f"{token}-{source.name}"
            break
    return DeadLetterPage(dead_letters, scanned, following)


def _begin(sources: Sequence[Queue], after: str | None) -> tuple[browse.Cursor | None, int]:
    if after is None:
        return None, 0
    level, _, rest = after.partition("-")
    position, _, name = rest.partition("-")
    for at, source in enumerate(sources):
        if source.name == name:
            return cursor_of(f"{level}-{position}"), at
    raise bad_request("after: must be the value of next in an earlier answer")


def find(sources: Sequence[Queue], dead_letter: str) -> tuple[Queue, int]:
    """The queue and position of the dead letter with this id."""
    position, dash, name = dead_letter.partition("-")
    named = [source for source in sources if not dash or source.name == name]
    if not position.isdecimal() or len(position) > len(str(1 << 63)) or not named:
        raise not_found()
    if len(named) > 1:
        raise bad_request("there are several dead letter queues: give the id as the list has it")
    return named[0], int(position)


def put_back(queue: Queue) -> Operation:
    return lambda source, positions: retry(queue, source, positions)


def discard(queue: Queue) -> Operation:
    """Delete only dead letters of `queue`: a client may send any positions."""

    def operation(source: Queue, positions: Sequence[int]) -> int:
        found = [
            seen.position for seen in browse.find(source, positions) if was_dead_lettered_in(seen.message, queue.name)
        ]
        return browse.remove(source, found)

    return operation


def is_there(queue: Queue, source: Queue, position: int) -> bool:
    return any(was_dead_lettered_in(seen.message, queue.name) for seen in browse.find(source, [position]))


async def for_named(
    queue: Queue, sources: Sequence[Queue], dead_letters: Sequence[str], operation: Operation
) -> tuple[int, int]:
    """Apply the operation to these dead letters. Returns how many were named, and how many succeeded."""
    by_source: dict[Queue, dict[int, None]] = {}
    for dead_letter in dead_letters:
        source, position = find(sources, dead_letter)
        by_source.setdefault(source, {})[position] = None
    done = 0
    for source, positions in by_source.items():
        done += await _do(queue, source, list(positions), operation)
    return sum(map(len, by_source.values())), done


async def for_all(
    queue: Queue, sources: Sequence[Queue], wanted: DeadLetterFilter, operation: Operation, count: int | None = None
) -> tuple[int, int]:
    """Apply the operation to the matching dead letters present now, or to the first `count`. Returns as `for_named`."""
    matched = done = 0
    for source in sources:
        async for positions in _wanted(source, wanted):
            if count is not None:
                positions = positions[: count - matched]
            matched += len(positions)
            done += await _do(queue, source, positions, operation)
            if queue.deleted or matched == count:
                return matched, done
    return matched, done


async def _wanted(source: Queue, wanted: DeadLetterFilter) -> AsyncIterator[list[int]]:
    walk = browse.Walk(source)
    last = source.last_position  # a retried message may be dead-lettered again at once
    slices = lists.Slices()
    while not walk.is_done and not source.deleted:
        found = []
        for seen in walk.step():
            if seen.position <= last and wanted.matches(seen.message):
                found.append(seen.position)
            await slices.pause()
        if found:
            yield found
        await slices.pause()


async def _do(queue: Queue, source: Queue, positions: Sequence[int], operation: Operation) -> int:
    done = 0
    slices = lists.Slices()
    for at in range(0, len(positions), STRIDE):
        if source.deleted or queue.deleted:
            break
        with turn(queue.vhost.broker):
            done += operation(source, positions[at : at + STRIDE])
        await slices.pause()
    return done

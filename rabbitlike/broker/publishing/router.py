"""Routes from an exchange to queues, through exchange-to-exchange bindings, alternates and several keys.

Each queue appears once, however many paths lead to it, in the order in which it was found; each exchange is visited
once, so loops end. Pure: reads exchanges and changes nothing, except the history of exchanges that keep messages.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from rabbitlike.broker.exchanges.exchange import MOST_STEPS, Exchange, too_many_steps
from rabbitlike.protocol.errors import AmqpError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rabbitlike.broker.exchanges.exchange import Destination
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.protocol.properties import Properties

log = logging.getLogger(__name__)


def route(
    exchange: Exchange,
    keys: Sequence[str],
    properties: Properties,
    exchanges: Mapping[str, Exchange],
    message: Message | None = None,
) -> list[Queue]:
    """The queues for a message.

    `keys`: the routing key, then those of CC and BCC. `message` is passed to exchanges on the path that keep their last
    messages; without it they keep nothing. Raises 406 if routing takes more than `MOST_STEPS`.
    """
    if not exchange.downstream and (message is None or not exchange.remembers):
        # The usual case: the exchange leads only to queues, so there is no graph to walk.
        if len(keys) == 1 or not exchange.every_key:
            found = dict.fromkeys(exchange.match(keys[0], properties))
        else:
            found = dict.fromkeys(_match_all(exchange, keys, properties, exchange.steps + MOST_STEPS))
        # A deleted queue may still be bound for a while: its bindings are removed in slices.
        queues = [queue for queue in cast("dict[Queue, None]", found) if not queue.deleted]
        if queues or exchange.alternate is None:
            return queues
    return _walk(exchange, keys, properties, exchanges, message)


def try_route(
    exchange: Exchange,
    keys: Sequence[str],
    properties: Properties,
    exchanges: Mapping[str, Exchange],
    message: Message | None = None,
) -> list[Queue]:
    """`route` for a message that no client waits for: returns no queues if routing takes too long."""
    try:
        return route(exchange, keys, properties, exchanges, message)
    except AmqpError as error:
        log.warning("a message cannot be routed: %s", error.text)
        return []


def _walk(
    exchange: Exchange,
    keys: Sequence[str],
    properties: Properties,
    exchanges: Mapping[str, Exchange],
    message: Message | None,
) -> list[Queue]:
    queues: dict[Queue, None] = {}
    # Grows during the loop.
    worklist = [exchange]
    seen = {exchange}
    steps_left = MOST_STEPS
    for current in worklist:
        if message is not None and current.remembers:
            current.remember(message, properties)
        matched = 0
        known = len(queues) + len(worklist)
        before = current.steps
        for destination in _match_all(current, keys, properties, before + steps_left):
            if not isinstance(destination, Exchange):
                if destination.deleted:
                    continue
                queues[destination] = None
            elif destination not in seen:
                seen.add(destination)
                worklist.append(destination)
            matched += 1
        # Destinations reached before count as well: there may be many more paths than exchanges.
        steps_left -= current.steps - before + matched - (len(queues) + len(worklist) - known)
        if steps_left < 0:
            raise too_many_steps(exchange)
        # parity: the alternate is used if the exchange's own bindings match nothing, anywhere on the path.
        if not matched and current.alternate is not None:
            alternate = exchanges.get(current.alternate)
            if alternate is not None and alternate not in seen:
                seen.add(alternate)
                worklist.append(alternate)
    return list(queues)


def _match_all(
    exchange: Exchange, keys: Sequence[str], properties: Properties, last_step: int
) -> Iterator[Destination]:
    """The destinations for all keys, possibly with duplicates. Each result counts as many steps as it has destinations,
    except the first and repeated ones, so that many keys cannot name thousands of queues thousands of times."""
    if not exchange.every_key:
        keys = keys[:1]
    answers: dict[int, Collection[Destination]] = {}
    for key in dict.fromkeys(keys) if len(keys) > 1 else keys:
        found = exchange.match(key, properties)
        if id(found) not in answers:
            if answers:
                exchange.steps += len(found)
            if exchange.steps > last_step:
                raise too_many_steps(exchange)
            answers[id(found)] = found
            yield from found


def cacheable(exchange: Exchange, exchanges: Mapping[str, Exchange]) -> bool:
    """Whether all exchanges that a message can pass from here route by the routing key alone."""
    worklist = [exchange]
    seen = {exchange}
    for current in worklist:
        if not current.cacheable:
            return False
        following = list(current.downstream)
        if current.alternate is not None and current.alternate in exchanges:
            following.append(exchanges[current.alternate])
        for next_one in following:
            if next_one not in seen:
                seen.add(next_one)
                worklist.append(next_one)
    return True

"""From an exchange to the queues: exchange-to-exchange bindings, alternates, several keys.

Each queue is named once however many ways lead to it, in the order it was first met; each exchange is visited once, so
loops end. Pure: reads the exchanges, changes nothing (but the memory of those that keep their messages).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rabbitlike.broker.exchanges.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.protocol.properties import Properties


def route(
    exchange: Exchange,
    keys: Sequence[str],
    properties: Properties,
    exchanges: Mapping[str, Exchange],
    message: Message | None = None,
) -> list[Queue]:
    """The queues a message goes to.

    `keys` is the routing key first, then those of CC and BCC. `message` is shown to the exchanges on the way that keep
    their last messages; without it they keep nothing.
    """
    if not exchange.downstream and (message is None or not exchange.remembers):
        # Nearly always: queues alone behind it, so there is nothing to walk.
        if len(keys) == 1 or not exchange.every_key:
            found = dict.fromkeys(exchange.match(keys[0], properties))
        else:
            found = dict.fromkeys(queue for key in keys for queue in exchange.match(key, properties))
        if found or exchange.alternate is None:
            return cast("list[Queue]", list(found))
    return _walk(exchange, keys, properties, exchanges, message)


def _walk(
    exchange: Exchange,
    keys: Sequence[str],
    properties: Properties,
    exchanges: Mapping[str, Exchange],
    message: Message | None,
) -> list[Queue]:
    queues: dict[Queue, None] = {}
    # Grows while it is walked.
    worklist = [exchange]
    seen = {exchange}
    for current in worklist:
        if message is not None and current.remembers:
            current.remember(message, properties)
        is_matched = False
        for key in keys if current.every_key else keys[:1]:
            for destination in current.match(key, properties):
                is_matched = True
                if not isinstance(destination, Exchange):
                    queues[destination] = None
                elif destination not in seen:
                    seen.add(destination)
                    worklist.append(destination)
        # parity: an alternate stands in when the exchange's own bindings match nothing, wherever on the way that is.
        if not is_matched and current.alternate is not None:
            alternate = exchanges.get(current.alternate)
            if alternate is not None and alternate not in seen:
                seen.add(alternate)
                worklist.append(alternate)
    return list(queues)


def cacheable(exchange: Exchange, exchanges: Mapping[str, Exchange]) -> bool:
    """Whether all exchanges a message could pass from here decide by the routing key alone."""
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

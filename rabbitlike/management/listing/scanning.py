"""Scans a queue for a request: in slices, up to a limit, and from the place where an earlier request stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.queues.browse import Cursor
from rabbitlike.management.http.errors import bad_request
from rabbitlike.management.listing import lists

if TYPE_CHECKING:
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.browse import Seen, Walk
    from rabbitlike.broker.queues.queue import Queue

#: Maximum octets of message bodies in one answer, whatever the requested count (but always one message).
MAX_PAYLOADS: Final = 20 * 1024 * 1024
#: Maximum messages that one request scans; the answer tells where it stopped.
MAX_SCANNED: Final = 10_000
MAX_TOKEN: Final = 40


def cursor_of(token: str | None) -> Cursor | None:
    """The cursor that an earlier answer returned as `next`."""
    if token is None:
        return None
    level, _, position = token.partition("-")
    if not (level.isdecimal() and position.isdecimal() and len(token) < MAX_TOKEN):
        raise bad_request("after: must be the value of next in an earlier answer")
    return Cursor(int(level), int(position))


def token_of(walk: Walk, cursor: Cursor) -> str | None:
    """The value of `after` that continues behind the cursor; None at the end."""
    return None if walk.is_done else f"{cursor.level}-{cursor.position}"


async def scan(
    walk: Walk, queue: Queue, test: Callable[[Message], bool] | None, limit: int, most: int | None = None
) -> tuple[list[Seen], int, Cursor]:
    """Up to `limit` messages that pass the test, how many were scanned, and the cursor after the last of them."""
    most = MAX_SCANNED if most is None else most
    chosen: list[Seen] = []
    scanned = size = 0
    cursor = walk.cursor
    slices = lists.Slices()
    while len(chosen) < limit and not walk.is_done and not queue.deleted and scanned < most:
        step = walk.step()
        for seen in step:
            scanned += 1
            if test is None or test(seen.message):
                chosen.append(seen)
                size += len(seen.message.body)
                if len(chosen) == limit or size >= MAX_PAYLOADS:
                    is_last = seen is step[-1]
                    return chosen, scanned, walk.cursor if is_last else seen.cursor
            await slices.pause()
        cursor = walk.cursor
        await slices.pause()
    return chosen, scanned, cursor

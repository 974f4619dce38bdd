"""How routes change the broker: within a turn, with an answer once the changes are on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rabbitlike.management.http.errors import ApiError, bad_request

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker


@contextmanager
def turn(broker: Broker) -> Iterator[None]:
    """Change the broker inside, without an await. At the end of the turn queues deliver and clients are flushed."""
    broker.turn.begin()
    try:
        yield
    finally:
        broker.turn.finish()


@contextmanager
def change(broker: Broker) -> Iterator[None]:
    """A turn that converts ValueError from the broker to a bad request."""
    with turn(broker):
        try:
            yield
        except ValueError as problem:
            raise bad_request(str(problem)) from None


def check_unblocked(broker: Broker) -> None:
    """Raise 503 while publishers are blocked; over AMQP they would have to wait."""
    if broker.turn.alarmed:
        alarms = ", ".join(sorted(broker.alarms.active))
        raise ApiError(503, "service_unavailable", f"publishers are blocked: {alarms}")


class _Commit:
    """Waits for one commit, as a connection does."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def committed(self, number: int) -> bool:
        if number < self._number:
            return False
        if not self.done.done():
            self.done.set_result(True)
        return True

    def commit_failed(self) -> bool:
        if not self.done.done():
            self.done.set_result(False)
        return True


async def stored(broker: Broker) -> None:
    """Wait until all changes so far are durable. Raises 503 if the disk refuses writes; they may be stored later."""
    if broker.journal is None:
        return
    commit = _Commit(broker.journal.number)
    broker.commit_waiters[commit] = None
    broker.journal.ask()
    try:
        if not await commit.done:
            raise ApiError(
                503, "not_stored", "the disk refuses writes; the change is made and will be stored when it can"
            )
    finally:
        broker.commit_waiters.pop(commit, None)

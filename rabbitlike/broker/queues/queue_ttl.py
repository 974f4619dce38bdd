"""The TTL of an unused queue (x-expires).

parity: declaring, getting and losing the last consumer restart the TTL, a consumer stops it, and publishing does
neither.
"""

from typing import TYPE_CHECKING

from rabbitlike.clock import Timer

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue


class QueueTtl:
    """The TTL timer of one queue; without x-expires no timer runs."""

    __slots__ = ("_queue", "_timer")

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._timer: Timer | None = None

    def renew(self) -> None:
        self.stop()
        queue = self._queue
        if queue.settings.expires_ms is not None and not queue.consumers.all and not queue.deleted:
            self._timer = queue.turn.at(queue.settings.expires_ms, self._end)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def detach(self) -> None:
        """Drop the reference to the deleted queue, so that reference counting frees both."""
        self.stop()
        self._queue = None  # type: ignore[assignment]

    def _end(self) -> None:
        queue = self._queue
        if not queue.deleted and not queue.consumers.all:
            queue.vhost.delete_queue(queue)

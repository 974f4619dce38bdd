"""Heartbeats of one connection in both directions, based on two octet counters and a clock.

parity: any octets count as activity. The broker sends a heartbeat after each half interval without output, and drops
the peer at the second check in a row, one interval apart, without new input: after two to three intervals.
"""

from collections.abc import Callable

from rabbitlike.clock import Clock, Timer

#: Consecutive checks without input that end the connection.
SILENT_CHECKS = 2


class Heartbeat:
    """Runs from `start` to `stop`. The owner adds its octets to `received` and `written`."""

    __slots__ = (
        "_clock",
        "_drop",
        "_interval_ms",
        "_is_deaf",
        "_receiver",
        "_seen_received",
        "_seen_written",
        "_send",
        "_sender",
        "_silent_checks",
        "received",
        "written",
    )

    def __init__(self, clock: Clock, send: Callable[[], None], drop: Callable[[], None]) -> None:
        self.received = 0
        self.written = 0
        self._clock = clock
        self._send = send
        self._drop = drop
        self._interval_ms = 0
        self._sender: Timer | None = None
        self._receiver: Timer | None = None
        self._seen_received = 0
        self._seen_written = 0
        self._silent_checks = 0
        self._is_deaf = False

    def start(self, seconds: int) -> None:
        """Begin with the interval the client chose; 0 turns heartbeats off in both directions."""
        self.stop()
        self._interval_ms = seconds * 1000
        if seconds:
            self._seen_written = self.written
            self._sender = self._clock.call_later(self._interval_ms // 2, self._check_written)
            self._listen()

    def stop(self) -> None:
        for timer in (self._sender, self._receiver):
            if timer is not None:
                timer.cancel()
        self._sender = self._receiver = None

    def end(self) -> None:
        """Stop for good and drop references to the owner."""
        self.stop()
        self._send = self._drop = _nothing

    def pause(self) -> None:
        """Stop checking input while the socket is not read, because silence then means nothing."""
        self._is_deaf = True
        if self._receiver is not None:
            self._receiver.cancel()
            self._receiver = None

    def resume(self) -> None:
        self._is_deaf = False
        if self._sender is not None:
            self._listen()

    def _listen(self) -> None:
        if not self._is_deaf and self._receiver is None:
            self._silent_checks = 0
            self._seen_received = self.received
            self._receiver = self._clock.call_later(self._interval_ms, self._check_received)

    def _check_written(self) -> None:
        if self.written == self._seen_written:
            self._send()
        self._seen_written = self.written
        if self._sender is not None:  # sending may have closed the connection
            self._sender = self._clock.call_later(self._interval_ms // 2, self._check_written)

    def _check_received(self) -> None:
        self._silent_checks = self._silent_checks + 1 if self.received == self._seen_received else 0
        self._seen_received = self.received
        if self._silent_checks >= SILENT_CHECKS:
            self.stop()
            self._drop()
        else:
            self._receiver = self._clock.call_later(self._interval_ms, self._check_received)


def _nothing() -> None: ...

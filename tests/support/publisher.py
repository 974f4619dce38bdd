"""A publisher that keeps a window of unconfirmed persistent messages and records whether each was confirmed."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pika

PERSISTENT = pika.BasicProperties(delivery_mode=2)
NUMBER_DIGITS = 8
WAIT_S = 30.0


def parameters(port: int) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)


def until(is_so: Callable[[], object], what: str, seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for: {what}"
        time.sleep(0.01)


class Publisher:
    """Publishes messages 1, 2, 3… to a durable queue, from its own thread, until it is stopped or loses the broker.

    Being blocked does not stop it: it fills the window, like a client that ignores alarms. After an answer it waits for
    ``pause_s``.
    """

    def __init__(self, port: int, queue: str, *, size: int = 4096, window: int = 50, pause_s: float = 0.0) -> None:
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        #: Reasons the broker gave when it blocked the connection, and the number of unblocks.
        self.blocked: list[str] = []
        self.unblocked = 0
        self.published = 0
        self._answered = 0
        self._queue = queue
        self._padding = b"." * (size - NUMBER_DIGITS)
        self._window = window
        self._pause_s = pause_s
        self._is_stopping = False
        self._is_ready = threading.Event()
        self._connection = pika.SelectConnection(parameters(port), self._on_open, self._on_closed, self._on_closed)
        self._thread = threading.Thread(target=self._connection.ioloop.start, name="publisher")

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(WAIT_S), "the publisher could not connect"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.ioloop.add_callback_threadsafe(self._end)
        # A broker that blocks a publisher does not read its connection.close.
        self._thread.join(WAIT_S if error is None else 1.0)
        if not self._thread.is_alive():
            self._connection.ioloop.close()
        assert not self._thread.is_alive() or error is not None

    def stop(self) -> None:
        """Stop publishing, and wait for the answers to published messages."""
        self._is_stopping = True
        until(lambda: self._answered == self.published, "every publish is answered")

    @property
    def answered(self) -> int:
        return self._answered

    def confirms(self, count: int) -> None:
        """Wait for `count` more confirms."""
        wanted = len(self.confirmed) + count
        until(lambda: len(self.confirmed) >= wanted, f"{count} more confirms")

    def _end(self) -> None:
        self._is_stopping = True
        if self._connection.is_open:
            self._connection.close()
        elif self._connection.is_closed:
            self._connection.ioloop.stop()

    def _on_open(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(lambda _, frame: self.blocked.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        connection.channel(on_open_callback=self._on_channel)

    def _on_unblocked(self, *_: object) -> None:
        self.unblocked += 1

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_answer, lambda _: self._on_confirming())

    def _on_confirming(self) -> None:
        self._channel.queue_declare(self._queue, durable=True, callback=lambda _: self._on_declared())

    def _on_declared(self) -> None:
        self._is_ready.set()
        self._fill()

    def _fill(self) -> None:
        while self.published - self._answered < self._window and not self._is_stopping:
            self.published += 1
            body = b"%0*d" % (NUMBER_DIGITS, self.published) + self._padding
            self._channel.basic_publish("", self._queue, body, PERSISTENT)

    def _on_answer(self, frame: Any) -> None:
        answer = frame.method
        first = self._answered + 1 if answer.multiple else answer.delivery_tag
        into = self.confirmed if isinstance(answer, pika.spec.Basic.Ack) else self.refused
        into.update(range(first, answer.delivery_tag + 1))
        self._answered = len(self.confirmed) + len(self.refused)
        if self._pause_s:
            self._connection.ioloop.call_later(self._pause_s, self._fill)
        else:
            self._fill()

    def _on_closed(self, *_: object) -> None:
        self._is_ready.set()
        self._connection.ioloop.stop()


def numbers_in(port: int, queue: str) -> list[int]:
    """Return the numbers of a publisher's messages in a queue, in order, and remove the messages."""
    connection = pika.BlockingConnection(parameters(port))
    channel = connection.channel()
    found: list[int] = []
    left = channel.queue_declare(queue, passive=True).method.message_count
    for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=WAIT_S) if left else ():
        assert body is not None, f"{left - len(found)} messages were promised and never came"
        found.append(int(body[:NUMBER_DIGITS]))
        if len(found) == left:
            break
    connection.close()
    return found

"""The well-behaved client: every few milliseconds it publishes a message, and gets each one back once it is confirmed.

Two of them run. One publishes a transient message every 5 ms: only the broker affects it, and the limits apply to it.
The other publishes a persistent one every 50 ms, whose confirm waits for the disk that the floods also write to; its
times are reported, and none of its messages may be lost. Both check that they get what they published.

A message is published when it is due, whether or not earlier ones have been answered: 200 messages see a stall of a
second, and a broker that takes 6 ms for each shows 6 ms, not an ever-growing queue in this process.
"""

import select
import struct
import time
from array import array
from collections import deque
from dataclasses import dataclass

from benchmarks import wire
from benchmarks.children import Child, Parent
from benchmarks.client import Address, Client, Refused

BODY_BYTES = 100
ANSWER_LIMIT_S = 120.0
READ_BYTES = 64 * 1024
_NUMBER = struct.Struct(">Q")
_CONFIRM = struct.Struct(">QB")
_METHOD = struct.Struct(">HH")


@dataclass(frozen=True, slots=True)
class Times:
    """Times of publishing and latencies, on the clock of all processes, and the errors."""

    at_s: "array[float]"
    took_ms: "array[float]"
    lost: int
    failure: str = ""


def measure(parent: Parent, address: Address, queue: str, every_s: float, persistent: bool) -> None:
    with Client(address) as client:
        client.open_channel()
        client.declare_queue(queue, durable=persistent)
        client.select_confirms()
        parent.ready()
        exchange = Exchange(client, queue, wire.properties(persistent=persistent))
        due = time.perf_counter()
        while not parent.is_started():
            exchange.publish()
            now = time.perf_counter()
            due = max(due + every_s, now)  # a late wake-up of this process does not count against the broker
            exchange.answer_until(due)
        exchange.finish(time.perf_counter() + ANSWER_LIMIT_S / 2)
        client.delete_queue(queue)
    parent.give(exchange.lost, *exchange.at_s, *exchange.took_ms)


def take(child: Child) -> Times:
    """End the measurement and return the times."""
    try:
        child.start()
        lost, *figures = child.take(ANSWER_LIMIT_S)
    except (OSError, EOFError, Refused) as error:
        return Times(array("d"), array("d"), 0, str(error) or type(error).__name__)
    half = len(figures) // 2
    return Times(array("d", figures[:half]), array("d", figures[half:]), int(lost))


class Exchange:
    """Messages on one channel, each published, confirmed, fetched and compared, in that order."""

    def __init__(self, client: Client, queue: str, props: bytes) -> None:
        self.at_s, self.took_ms = array("d"), array("d")
        #: Confirmed messages that did not come back, or came back changed.
        self.lost = 0
        self._client = client
        self._queue = queue
        self._props = props
        self._get = wire.get(queue, auto_ack=True)
        self._number = 0
        self._confirmed = 0
        #: Times of publishing, by number, of the messages that have not come back.
        self._open: deque[tuple[int, float]] = deque()
        self._unread = b""
        self._readable = select.poll()
        self._readable.register(client.sock, select.POLLIN)

    def publish(self) -> None:
        self._number += 1
        self._open.append((self._number, time.perf_counter()))
        self._client.send(wire.publish("", self._queue, _body(self._number), props=self._props))

    def answer_until(self, due: float) -> None:
        """Read what arrives until ``due``."""
        while (left_s := due - time.perf_counter()) > 0:
            if self._readable.poll(left_s * 1000):
                self._read()

    def finish(self, deadline: float) -> None:
        """Wait for the remaining messages."""
        while self._open:
            self.answer_until(min(deadline, time.perf_counter() + 0.001))
            if time.perf_counter() >= deadline:
                raise Refused(f"{len(self._open)} messages were not answered")

    def _read(self) -> None:
        data = self._client.sock.recv(READ_BYTES)
        if not data:
            raise Refused("the broker closed the socket")
        data = self._unread + data
        at = 0
        while len(data) >= at + 8:
            kind, _, size = wire.FRAME_HEAD.unpack_from(data, at)
            if len(data) < at + size + 8:
                break
            self._take(kind, data[at + 7 : at + 7 + size])
            at += size + 8
        self._unread = data[at:]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == wire.METHOD:
            method = _METHOD.unpack_from(payload)
            if method == wire.ACK:
                self._confirm(*_CONFIRM.unpack_from(payload, 4))
            elif method == wire.GET_EMPTY:
                self._note(is_lost=True)
            elif method != wire.GET_OK:
                raise Refused(f"method {method} where a confirm or a message was due")
        elif kind == wire.BODY:
            self._note(is_lost=payload != _body(self._open[0][0]))

    def _confirm(self, tag: int, multiple: int) -> None:
        """Handle a confirm. Confirms arrive in order here: one queue, one kind of message."""
        if tag != self._confirmed + 1 and not (multiple and self._confirmed < tag <= self._number):
            raise Refused(f"confirm {tag} where {self._confirmed + 1} was due")
        self._client.send(self._get * (tag - self._confirmed))
        self._confirmed = tag

    def _note(self, *, is_lost: bool) -> None:
        _, published_at = self._open.popleft()
        self.lost += is_lost
        self.at_s.append(published_at)
        self.took_ms.append((time.perf_counter() - published_at) * 1000)


def _body(number: int) -> bytes:
    return _NUMBER.pack(number).ljust(BODY_BYTES, b".")

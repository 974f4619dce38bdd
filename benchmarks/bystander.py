"""A well-behaved client under load: every 5 ms it publishes one message, gets it back and times that.

    with bystander(address) as client:
        ...                     # the disturbance
        print(client.stop())    # count, p50, p99 and max in ms

It has its own process and connection, so the load affects it only through the broker. `python -m benchmarks.bystander
HOST:PORT SECONDS` measures a running broker; `python -m benchmarks.bystander HOST:PORT large MIB…` measures while one
message of each size is published, fetched and read back from disk, which the broker's `max_message_size` must allow.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import wire
from benchmarks.children import Child, Parent, forked
from benchmarks.client import Address, Client, Refused
from benchmarks.scenarios.scenario import percentile

EVERY_S = 0.005
BODY = b"bystander"
#: Limits on the times of a bystander, whatever other clients do.
P99_LIMIT_MS, MAX_LIMIT_MS = 20.0, 100.0
CONNECT_LIMIT_S = 30.0
#: Seconds of measurement after a large message came or went: freeing it takes time, too.
AFTERWARDS_S = 0.3
READ_BYTES = 1 << 20
#: Report a broker as unresponsive after this time.
ANSWER_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Time to publish and get one message."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @property
    def is_within_limits(self) -> bool:
        return self.p99_ms <= P99_LIMIT_MS and self.max_ms <= MAX_LIMIT_MS

    def __str__(self) -> str:
        return f"p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.1f} ms, max {self.max_ms:.1f} ms ({self.count} samples)"


class Bystander:
    """Handle of the measuring process."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def stop(self) -> Latency:
        """End the measurement and return the result."""
        self._child.start()
        count, p50_ms, p99_ms, max_ms = self._child.take(ANSWER_LIMIT_S)
        return Latency(int(count), p50_ms, p99_ms, max_ms)


@contextlib.contextmanager
def bystander(address: Address, queue: str = "bystander", every_s: float = EVERY_S) -> Iterator[Bystander]:
    """Measure until `stop`."""
    with forked(measure, address, queue, every_s) as child:
        child.take(CONNECT_LIMIT_S)
        yield Bystander(child)


def measure(parent: Parent, address: Address, queue: str, every_s: float) -> None:
    with Client(address) as client:
        client.open_channel()
        client.declare_queue(queue)
        request = wire.publish("", queue, BODY, props=wire.properties()) + wire.get(queue, auto_ack=True)
        _publish_and_get(client, request)
        parent.ready()
        samples = sorted(_times_ms(parent, client, request, every_s))
        client.delete_queue(queue)
        parent.give(len(samples), percentile(samples, 0.5), percentile(samples, 0.99), samples[-1])


def _times_ms(parent: Parent, client: Client, request: bytes, every_s: float) -> Iterator[float]:
    """Yield the time of each message in ms.

    A message that is due while the previous one is in flight is timed from its due time: 200 messages see a stall of
    one second, not one. A late wake-up of this process does not count against the broker.
    """
    due = time.perf_counter()
    is_last = False
    while not is_last:
        _publish_and_get(client, request)
        now = time.perf_counter()
        yield (now - due) * 1000
        due += every_s
        is_last = parent.is_started(max(0.0, due - now))
        if due > now:
            due = time.perf_counter()


def _publish_and_get(client: Client, request: bytes) -> None:
    client.send(request)
    client.expect(wire.GET_OK)
    for kind in (wire.HEADER, wire.BODY):
        got, _, _ = client.read_frame()
        if got != kind:
            raise Refused(f"expected a frame of type {kind}, got {got}")


# A large message beside it


def beside_large(address: Address, body_size: int) -> Iterator[tuple[str, float, Latency]]:
    """Yield each operation on a message of this size, its seconds, and the latency that a bystander saw."""
    queue = "bystander.large"
    body = bytes(body_size)
    for persistent in (False, True):
        kind = "persistent" if persistent else "transient"
        with Client(address) as client:
            client.open_channel()
            client.select_confirms()
            client.declare_queue(queue, durable=persistent)
            for what in ("publish", "publish another", "get", "get the other"):
                with bystander(address) as other:
                    began = time.perf_counter()
                    if what.startswith("publish"):
                        for piece in wire.pieces("", queue, body, props=wire.properties(persistent=persistent)):
                            client.send(piece)
                        client.expect(wire.ACK)
                    else:
                        client.send(wire.get(queue, auto_ack=True))
                        client.expect(wire.GET_OK)
                        _read_content(client)
                    took_s = time.perf_counter() - began
                    time.sleep(AFTERWARDS_S)
                    yield f"{what}, {kind}", took_s, other.stop()
            client.delete_queue(queue)


def _read_content(client: Client) -> None:
    _, head, _ = client.read_frame()
    left = int.from_bytes(head[4:12], "big")
    buffer = memoryview(bytearray(READ_BYTES))
    while left:
        _, _, size = wire.FRAME_HEAD.unpack(client.read_exactly(7))
        left -= size
        size += 1  # the end octet
        while size:
            size -= client.sock.recv_into(buffer[: min(size, READ_BYTES)])


def main(where: str, *words: str) -> None:
    host, _, port = where.rpartition(":")
    address = Address(host or "127.0.0.1", int(port))
    if words[0] == "large":
        for mib in words[1:]:
            for what, took_s, latency in beside_large(address, int(mib) << 20):
                print(f"{mib} MiB, {what}: {took_s:.2f} s; {latency}", flush=True)
        return
    with bystander(address) as client:
        time.sleep(float(words[0]))
        print(client.stop())


if __name__ == "__main__":
    main(*sys.argv[1:])

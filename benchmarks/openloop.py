"""Open loop: publishers write as fast as their sockets accept, without waiting for consumers; deliveries are counted.

The figure is messages *out*: what the consumers received in a window of time that begins after a warm-up, while the
publishers continue. What a broker accepts and cannot deliver is its backlog, reported with the rate and the broker's
memory. After the window the publishers stop at a message boundary, and the consumers get some seconds for the rest, so
that a run with a small backlog also proves that nothing was lost or duplicated.

One process publishes on all connections, one consumes on all, and this one keeps the time. They share a few counters.
After every read a consumer checks that the delivery tag of the last whole message equals its count, that the message is
not marked as redelivered, and that the ids of the last two messages differ.
"""

import bisect
import itertools
import mmap
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import machine, processes, wire
from benchmarks.brokers import Running
from benchmarks.children import Child, Parent, forked
from benchmarks.client import Address, Client, Refused
from benchmarks.messages import ID_BYTES

WARM_UP_S = 1.0
SLICE_S = 0.1
MEMORY_EVERY = 5  # slices between two samples of the broker's memory
MEMORY_SHARE = 0.6  # of the machine's memory: a broker that takes more is stopped before it takes the rest
READ_BYTES = 256 * 1024
WAKE_BYTES, WAKE_MS = 32 * 1024, 10
SEND_BYTES = 1024 * 1024
START_LIMIT_S, STOP_LIMIT_S, DRAIN_S = 60.0, 60.0, 5.0
_TAG = struct.Struct(">QB")  # the delivery tag and the redelivered flag
_SIZE = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Load:
    """All publishers send to one queue, and all consumers read from it."""

    queue: str
    publishers: Sequence[Sequence[bytes]]  # for each, the messages of one cycle, as frames
    consumers: int = 1
    prefetch: int = 0
    ack_every: int = 0  # 0: auto-ack; n: one multiple ack per n deliveries
    most: int = 0  # messages each publisher sends at most; 0: no limit
    drain_s: float = DRAIN_S  # how long the consumers continue after the window

    @property
    def is_uniform(self) -> bool:
        """Return whether all messages have one size, so that deliveries can be counted by division."""
        return len({len(message) for cycle in self.publishers for message in cycle}) == 1


@dataclass(frozen=True, slots=True)
class Seen:
    """The measurements of one run. The first group covers only the window, the second the whole run."""

    seconds: float
    delivered: int
    slowest_slice: float  # messages per second in the slowest tenth of a second
    broker_cpu_s: float
    publisher_cpu_s: float
    consumer_cpu_s: float
    backlog: int  # sent and not yet delivered at the end of the window
    rss_bytes: float  # the largest sample

    total_published: int
    total_delivered: int
    undelivered: int  # after the consumers' extra time
    ids_checked: int
    ids_seen: int


class Counters:
    """Integers shared by the processes of a run; each cell has one writer."""

    def __init__(self, publishers: int, consumers: int) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        cells = memoryview(self._memory).cast("q")
        self._flags = cells[:2]
        self.published = cells[2 : 2 + publishers]
        self.delivered = cells[2 + publishers : 2 + publishers + consumers]

    @property
    def is_publishing(self) -> bool:
        return self._flags[0] == 0

    def stop_publishing(self) -> None:
        self._flags[0] = 1

    @property
    def is_consuming(self) -> bool:
        return self._flags[1] == 0

    def stop_consuming(self) -> None:
        self._flags[1] = 1


def run(broker: Running, load: Load, seconds: float) -> Seen:
    """Publish, count for `seconds` after a warm-up, then stop the publishers and let the consumers finish."""
    counters = Counters(len(load.publishers), load.consumers)
    with (
        forked(consume, broker.address, load, counters) as consumer,
        forked(publish, broker.address, load, counters) as publisher,
    ):
        consumer.take(START_LIMIT_S)
        publisher.take(START_LIMIT_S)
        consumer.start()
        publisher.start()
        time.sleep(WARM_UP_S)
        window = _measure(broker, counters, (publisher, consumer), seconds)
        counters.stop_publishing()
        publisher.take(STOP_LIMIT_S)
        _await_rest(counters, load.drain_s)
        counters.stop_consuming()
        checked, distinct = consumer.take(STOP_LIMIT_S)
    published, delivered = sum(counters.published), sum(counters.delivered)
    if delivered > published:
        raise Refused(f"{delivered} messages were delivered, {published} were published")
    return Seen(
        *window,
        total_published=published,
        total_delivered=delivered,
        undelivered=published - delivered,
        ids_checked=int(checked),
        ids_seen=int(distinct),
    )


def _measure(
    broker: Running, counters: Counters, children: tuple[Child, Child], seconds: float
) -> tuple[float, int, float, float, float, float, int, float]:
    """Return the figures of the window, in the order of `Seen`."""
    pids = (broker.pid, *(child.pid for child in children))
    cpu = [processes.cpu_seconds(pid) for pid in pids]
    began = previous = time.perf_counter()
    first = before = sum(counters.delivered)
    slowest, rss = float("inf"), broker.rss_bytes()
    limit = machine.memory_bytes() * MEMORY_SHARE
    for turn in itertools.count(1):
        time.sleep(max(0.0, min(began + turn * SLICE_S, began + seconds) - time.perf_counter()))
        now, count = time.perf_counter(), sum(counters.delivered)
        if now - previous >= SLICE_S / 2:
            slowest = min(slowest, (count - before) / (now - previous))
        previous, before = now, count
        if turn % MEMORY_EVERY == 0 and (rss := max(rss, broker.rss_bytes())) > limit:
            raise Refused(f"the broker took {rss / 2**30:.1f} GB of memory")
        if now - began >= seconds:
            break
    backlog = max(0, sum(counters.published) - before)  # a delivery may be counted before its publish is
    cpu = [processes.cpu_seconds(pid) - used for pid, used in zip(pids, cpu, strict=True)]
    broker_cpu_s, publisher_cpu_s, consumer_cpu_s = cpu
    rss = max(rss, broker.rss_bytes())
    return now - began, before - first, slowest, broker_cpu_s, publisher_cpu_s, consumer_cpu_s, backlog, rss


def _await_rest(counters: Counters, limit_s: float) -> None:
    deadline = time.perf_counter() + limit_s
    while sum(counters.delivered) != sum(counters.published) and time.perf_counter() < deadline:
        time.sleep(0.01)


# Publishing


@dataclass(slots=True)
class Feed:
    """One publishing connection. Its cycle of messages is one block of bytes, sent again and again."""

    client: Client
    block: memoryview
    ends: list[int]  # where each message ends in the block
    most: int
    at: int = 0  # bytes of the block that the socket has accepted
    cycles: int = 0

    @property
    def published(self) -> int:
        """Return the number of whole messages that the socket has accepted."""
        return self.cycles * len(self.ends) + bisect.bisect_right(self.ends, self.at)

    @property
    def stop_at(self) -> int:
        """Return the end of the message that is being sent."""
        return 0 if self.at == 0 else self.ends[bisect.bisect_left(self.ends, self.at)]

    def send(self, end: int) -> None:
        """Send what the socket accepts at once, up to `end` in the block."""
        if self.most:
            left = self.most - self.cycles * len(self.ends)
            end = min(end, self.ends[left - 1] if left < len(self.ends) else end)
        try:
            self.at += self.client.sock.send(self.block[self.at : end], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if self.at == len(self.block):
            self.at, self.cycles = 0, self.cycles + 1

    def is_done(self) -> bool:
        return self.most > 0 and self.published >= self.most


def publish(parent: Parent, address: Address, load: Load, counters: Counters) -> None:
    feeds = [_open_feed(address, load, lane) for lane in range(len(load.publishers))]
    writable = select.poll()
    lanes = {feed.client.sock.fileno(): (lane, feed) for lane, feed in enumerate(feeds)}
    for fd in lanes:
        writable.register(fd, select.POLLOUT)
    parent.ready()
    parent.await_start()
    while counters.is_publishing:
        events = writable.poll(WAKE_MS)
        for fd, _ in events:
            lane, feed = lanes[fd]
            feed.send(min(feed.at + SEND_BYTES, len(feed.block)))
            counters.published[lane] = feed.published
            if feed.is_done():
                writable.unregister(fd)
    for lane, feed in enumerate(feeds):
        end = feed.stop_at
        while feed.at < end:
            writable.poll(WAKE_MS)
            feed.send(end)
            if feed.at == 0:  # the block's last message
                break
        counters.published[lane] = feed.published
    parent.give()
    for feed in feeds:
        feed.client.close()


def _open_feed(address: Address, load: Load, lane: int) -> Feed:
    client = Client(address)
    client.open_channel()
    cycle = load.publishers[lane]
    ends = list(itertools.accumulate(len(message) for message in cycle))
    return Feed(client, memoryview(b"".join(cycle)), ends, load.most)


# Consuming


@dataclass(slots=True)
class Drain:
    """One consuming connection.

    Its first delivery is read frame by frame; later ones have the same layout except for the length of the body.
    """

    client: Client
    ack_every: int
    is_uniform: bool
    view: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    filled: int = 0
    count: int = 0
    acked: int = 0
    tag_at: int = 0
    size_at: int = 0  # of the body's length in the content header
    body_at: int = 0
    fixed: int = 0  # size of a delivery without its body
    size: int = 0  # size of a delivery, if all have one size
    checked: int = 0
    ids: set[bytes] = field(default_factory=set)

    def read(self) -> bool:
        """Read what has arrived; return True if whole messages came."""
        try:
            if not self.fixed:
                self._learn()
            else:
                count = self.client.sock.recv_into(self.view[self.filled :], 0, socket.MSG_DONTWAIT)
                if not count:
                    raise Refused("the broker closed the socket")
                self.filled += count
        except BlockingIOError:
            return False
        whole, last, last_but_one, end = self._count_whole()
        if not whole:
            return False
        self.count += whole
        self._check(last, last_but_one if whole > 1 else None)
        rest = self.filled - end
        self.view[:rest] = self.view[end : self.filled]
        self.filled = rest
        if self.ack_every:
            self._ack()
        return True

    def _learn(self) -> None:
        self.client.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        shape, raw = self.client.read_delivery()
        self.view[: len(raw)] = raw
        self.filled = self.size = len(raw)
        self.tag_at, self.body_at = shape.tag_offset, shape.body_offset
        self.size_at = wire.FRAME_HEAD.unpack_from(raw)[2] + 8 + wire.BODY_SIZE_OFFSET
        self.fixed = self.size - _SIZE.unpack_from(raw, self.size_at)[0]
        wake_at(self.client.sock, WAKE_BYTES)

    def _count_whole(self) -> tuple[int, int, int, int]:
        """Return the number of whole deliveries, the starts of the last two, and the end of the last one."""
        if self.is_uniform:
            size = self.size
            whole = self.filled // size
            return whole, (whole - 1) * size, (whole - 2) * size, whole * size
        view, filled, fixed, size_at, unpack = self.view, self.filled, self.fixed, self.size_at, _SIZE.unpack_from
        whole = at = last = last_but_one = 0
        while at + fixed <= filled:
            end = at + fixed + unpack(view, at + size_at)[0]
            if end > filled:
                break
            last_but_one, last, at, whole = last, at, end, whole + 1
        return whole, last, last_but_one, at

    def _check(self, last: int, last_but_one: int | None) -> None:
        tag, redelivered = _TAG.unpack_from(self.view, last + self.tag_at)
        if tag != self.count:
            raise Refused(f"delivery tag {tag} where {self.count} was due")
        if redelivered:
            raise Refused(f"delivery {tag} is a redelivery")
        found = self._id(last)
        if last_but_one is not None and found == self._id(last_but_one):
            raise Refused(f"deliveries {tag - 1} and {tag} are the same message, {found.decode()}")
        self.checked += 1
        self.ids.add(found)

    def _id(self, at: int) -> bytes:
        return bytes(self.view[at + self.body_at : at + self.body_at + ID_BYTES])

    def _ack(self) -> None:
        due = range(self.acked + self.ack_every, self.count + 1, self.ack_every)
        if due:
            self.client.sock.sendall(b"".join([wire.ack(tag, multiple=True) for tag in due]))
            self.acked = due[-1]

    def finish(self) -> None:
        """Acknowledge the remaining deliveries of the last hundred, so that none is requeued."""
        if self.ack_every and self.acked < self.count:
            self.client.sock.sendall(wire.ack(self.count, multiple=True))
        self.client.sock.close()


def consume(parent: Parent, address: Address, load: Load, counters: Counters) -> None:
    drains = [_open_drain(address, load) for _ in range(load.consumers)]
    readable = select.poll()
    lanes = {drain.client.sock.fileno(): lane for lane, drain in enumerate(drains)}
    for fd in lanes:
        readable.register(fd, select.POLLIN)
    parent.ready()
    parent.await_start()
    while counters.is_consuming:
        events = readable.poll(WAKE_MS)
        # After a timeout there may still be bytes, fewer than the socket waits for.
        for lane in [lanes[fd] for fd, _ in events] or range(len(drains)):
            if drains[lane].read():
                counters.delivered[lane] = drains[lane].count
    for drain in drains:
        drain.finish()
    parent.give(sum(drain.checked for drain in drains), len(set().union(*(drain.ids for drain in drains))))


def _open_drain(address: Address, load: Load) -> Drain:
    client = Client(address)
    client.open_channel()
    if load.prefetch:
        client.qos(load.prefetch)
    client.consume(load.queue, auto_ack=load.ack_every == 0)
    return Drain(client, load.ack_every, load.is_uniform)


def wake_at(sock: socket.socket, count: int) -> None:
    """Sleep until `count` bytes have arrived, so that small writes of a broker do not wake the generator each time."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

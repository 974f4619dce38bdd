"""Maximum throughput of a broker: one process publishes, one consumes, both at minimal cost.

The publisher sends blocks of ready-made frames. The consumer learns the size of the first delivery and from then on
counts bytes; after every read the delivery tag at the place of the last whole message must equal that count, so a lost,
duplicated or malformed delivery is detected. A shared array of counters tells the publisher the progress of the
consumers: it waits while the backlog exceeds a bound that limits the broker's memory but is far above what any broker
needs to stay busy.
"""

import mmap
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import processes, wire
from benchmarks.brokers import Running
from benchmarks.children import Parent, forked
from benchmarks.client import Address, Client, Refused, Shape

BLOCK_BYTES = 512 * 1024
READ_BYTES = 128 * 1024
BACKLOG_MESSAGES = 100_000
BACKLOG_BYTES = 200_000_000
BACKLOG_S, BACKLOG_FLOOR = 1.0, 10_000
WINDOW_PIECES = 20
WAKE_BYTES, WAKE_MS = 32 * 1024, 10
MESSAGE_CAP = 30_000_000
START_LIMIT_S, RUN_LIMIT_S, QUIET_LIMIT_S = 30.0, 120.0, 20.0
_TAG = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Load:
    """What to send and how to consume it.

    Publisher i feeds consumer i; if their numbers differ, each feeds all. Without queues there is no consumer, and only
    confirms limit the publisher.
    """

    publishers: Sequence[Sequence[bytes]]  # for each, the messages of one cycle, as frames
    queues: Sequence[str]  # one consumer connection each
    prefetch: int = 0
    ack_every: int = 0  # 0: auto-ack; 1: each message by its own ack; n: one multiple ack per n messages
    confirms: bool = False
    window: int = 0  # most unconfirmed publishes per connection; 0: limited only by the backlog
    most: int = MESSAGE_CAP

    @property
    def is_paired(self) -> bool:
        return len(self.publishers) == len(self.queues)

    @property
    def backlog(self) -> int:
        """Return how many messages a publisher may be ahead of its slowest consumer."""
        size = max(len(message) for cycle in self.publishers for message in cycle)
        copies = 1 if self.is_paired else max(1, len(self.queues))
        lanes = len(self.publishers)
        return min(BACKLOG_MESSAGES, BACKLOG_BYTES // size) // max(copies, lanes)


@dataclass(frozen=True, slots=True)
class Flow:
    """The measurements of one run. Times are on the clock that all processes share."""

    published: int
    delivered: int
    publish_s: float
    deliver_s: float  # first publish to last delivery
    confirm_s: float  # first publish to last confirm; 0 without confirms
    publisher_cpu_s: float
    consumer_cpu_s: float
    broker_cpu_s: float


class Counters:
    """Integers shared between the processes of a run: deliveries per consumer, and the totals once known."""

    def __init__(self, lanes: int) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        cells = memoryview(self._memory).cast("q")
        self.delivered = cells[:lanes]
        self.expected = cells[lanes : 2 * lanes]
        for lane in range(lanes):
            self.expected[lane] = -1


@dataclass(slots=True)
class Feed:
    """One publishing connection."""

    client: Client
    block: memoryview
    per_block: int
    watched: memoryview
    pending: memoryview
    confirms: "Confirms | None"
    window: int
    sent: int = 0

    def reached(self) -> int:
        """Return how many of its messages the slowest consumer has received and the broker has confirmed."""
        delivered = min(self.watched, default=self.sent)
        return min(delivered, self.confirms.count) if self.confirms else delivered

    def may_send(self, bound: int, elapsed: float) -> bool:
        """Return whether to send another block.

        The publisher may be ahead by at most the bound and about a second of the broker's measured rate, and never has
        more unconfirmed publishes than the window allows.
        """
        if self.window and self.confirms and self.sent + self.per_block - self.confirms.count > self.window:
            return False
        reached = self.reached()
        return self.sent - reached < min(bound, max(BACKLOG_FLOOR, reached / elapsed * BACKLOG_S))


@dataclass(slots=True)
class Confirms:
    """Counts the confirmed publishes of a connection, in any order and grouping."""

    sock: socket.socket
    upto: int = 0
    beyond: set[int] = field(default_factory=set)
    tail: bytes = b""

    @property
    def count(self) -> int:
        return self.upto + len(self.beyond)

    def read(self, *, wait: bool) -> None:
        try:
            data = self.sock.recv(READ_BYTES, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            raise Refused("the broker closed the socket")
        data = self.tail + data
        whole = len(data) - len(data) % wire.ACK_FRAME.size
        self.tail = data[whole:]
        for _, _, _, class_id, method_id, tag, multiple, _ in wire.ACK_FRAME.iter_unpack(data[:whole]):
            if (class_id, method_id) != wire.ACK:
                raise Refused(f"expected a confirm, got method {(class_id, method_id)}")
            if multiple:
                self.upto = max(self.upto, tag)
                self.beyond = {other for other in self.beyond if other > self.upto}
            else:
                self.beyond.add(tag)
        while self.upto + 1 in self.beyond:
            self.upto += 1
            self.beyond.remove(self.upto)


@dataclass(slots=True)
class Drain:
    """One consuming connection."""

    client: Client
    lane: int
    view: memoryview
    count: int = 0
    filled: int = 0
    shape: Shape | None = None
    acks: wire.TagBlock | None = None
    acked: int = 0
    last_at: float = 0.0


def run(broker: Running, load: Load, seconds: float) -> Flow:
    """Publish for `seconds`, wait until everything is delivered, and return the times."""
    counters = Counters(len(load.queues))
    with (
        forked(consume, broker.address, load, counters) as consumer,
        forked(publish, broker.address, load, counters, seconds) as publisher,
    ):
        consumer.take(START_LIMIT_S)
        publisher.take(START_LIMIT_S)
        broker_cpu_s = broker.cpu_seconds()
        publisher.start()
        began, ended, confirmed_at, published, publisher_cpu_s = publisher.take(seconds + RUN_LIMIT_S)
        last_at, delivered, consumer_cpu_s = consumer.take(RUN_LIMIT_S)
        broker_cpu_s = broker.cpu_seconds() - broker_cpu_s
    return Flow(
        published=int(published),
        delivered=int(delivered),
        publish_s=ended - began,
        deliver_s=last_at - began,
        confirm_s=confirmed_at - began if load.confirms else 0.0,
        publisher_cpu_s=publisher_cpu_s,
        consumer_cpu_s=consumer_cpu_s,
        broker_cpu_s=broker_cpu_s,
    )


def fill(broker: Running, load: Load, seconds: float) -> Flow:
    """Publish for `seconds`, or `load.most` messages, without consumers; return after the last confirm."""
    counters = Counters(0)
    with forked(publish, broker.address, load, counters, seconds) as publisher:
        publisher.take(START_LIMIT_S)
        broker_cpu_s = broker.cpu_seconds()
        publisher.start()
        began, ended, confirmed_at, published, publisher_cpu_s = publisher.take(seconds + RUN_LIMIT_S)
        broker_cpu_s = broker.cpu_seconds() - broker_cpu_s
    return Flow(
        published=int(published),
        delivered=0,
        publish_s=ended - began,
        deliver_s=0.0,
        confirm_s=confirmed_at - began,
        publisher_cpu_s=publisher_cpu_s,
        consumer_cpu_s=0.0,
        broker_cpu_s=broker_cpu_s,
    )


def drain(broker: Running, load: Load, count: int, limit_s: float) -> Flow:
    """Consume `count` messages that are already in the queues."""
    counters = Counters(len(load.queues))
    counters.expected[0] = count
    broker_cpu_s, began = broker.cpu_seconds(), time.perf_counter()
    with forked(consume, broker.address, load, counters) as consumer:
        consumer.take(START_LIMIT_S)
        last_at, delivered, consumer_cpu_s = consumer.take(limit_s)
    return Flow(
        published=0,
        delivered=int(delivered),
        publish_s=0.0,
        deliver_s=last_at - began,
        confirm_s=0.0,
        publisher_cpu_s=0.0,
        consumer_cpu_s=consumer_cpu_s,
        broker_cpu_s=broker.cpu_seconds() - broker_cpu_s,
    )


# Publishing


def publish(parent: Parent, address: Address, load: Load, counters: Counters, seconds: float) -> None:
    feeds = [_open_feed(address, load, counters, lane) for lane in range(len(load.publishers))]
    cpu = processes.own_cpu_seconds()
    parent.ready()
    parent.await_start()
    began = time.perf_counter()
    _pour(feeds, load, began, seconds)
    ended = time.perf_counter()
    published = sum(feed.sent for feed in feeds)
    for lane in range(len(load.queues)):
        counters.expected[lane] = feeds[lane].sent if load.is_paired else published
    for feed in feeds:
        while feed.confirms and feed.confirms.count < feed.sent:
            feed.confirms.read(wait=True)
    confirmed_at = time.perf_counter()
    cpu = processes.own_cpu_seconds() - cpu
    for feed in feeds:
        feed.client.close()
    parent.give(began, ended, confirmed_at, published, cpu)


def _open_feed(address: Address, load: Load, counters: Counters, lane: int) -> Feed:
    client = Client(address)
    client.open_channel()
    if load.confirms:
        client.select_confirms()
    cycle = b"".join(load.publishers[lane])
    repeats = max(1, BLOCK_BYTES // len(cycle))
    if load.window:  # in small pieces, so that the window stays nearly full
        repeats = max(1, min(repeats, load.window // WINDOW_PIECES // len(load.publishers[lane])))
    return Feed(
        client,
        block=memoryview(cycle * repeats),
        per_block=len(load.publishers[lane]) * repeats,
        watched=counters.delivered[lane : lane + 1] if load.is_paired else counters.delivered,
        pending=memoryview(b""),
        confirms=Confirms(client.sock) if load.confirms else None,
        window=load.window,
    )


def _pour(feeds: list[Feed], load: Load, began: float, seconds: float) -> None:
    """Send whole blocks on every connection that may send, until time is up and every begun block is sent."""
    writable, answered = select.poll(), select.poll()
    by_fd = {feed.client.sock.fileno(): feed for feed in feeds}
    if load.confirms:
        for fd in by_fd:
            answered.register(fd, select.POLLIN)
    bound, cap = load.backlog, load.most // len(feeds)
    open_feeds = list(feeds)
    while open_feeds:
        elapsed = time.perf_counter() - began  # never 0: the clock has moved since
        open_feeds = [feed for feed in open_feeds if feed.pending or (elapsed < seconds and feed.sent < cap)]
        wanted = [feed for feed in open_feeds if feed.pending or feed.may_send(bound, elapsed)]
        for feed in wanted:
            writable.register(feed.client.sock, select.POLLOUT)
        if wanted:
            for fd, _ in writable.poll(10):
                _send_some(by_fd[fd])
        elif open_feeds:
            answered.poll(1)  # without confirms, sleep for a millisecond
        for feed in wanted:
            writable.unregister(feed.client.sock)
        for feed in open_feeds:
            if feed.confirms:
                feed.confirms.read(wait=False)


def _send_some(feed: Feed) -> None:
    if not feed.pending:
        feed.pending = feed.block
        feed.sent += feed.per_block
    try:
        count = feed.client.sock.send(feed.pending, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    feed.pending = feed.pending[count:]


# Consuming


def consume(parent: Parent, address: Address, load: Load, counters: Counters) -> None:
    drains = [_open_drain(address, load, lane) for lane in range(len(load.queues))]
    readable = select.poll()
    by_fd = {drain.client.sock.fileno(): drain for drain in drains}
    for fd in by_fd:
        readable.register(fd, select.POLLIN)
    cpu = processes.own_cpu_seconds()
    parent.ready()
    heard_at = time.monotonic()
    while any(drain.count != counters.expected[drain.lane] for drain in drains):
        events = readable.poll(WAKE_MS)
        for drain in [by_fd[fd] for fd, _ in events] or drains:
            if _read_some(drain, load):
                counters.delivered[drain.lane] = drain.count
                heard_at = time.monotonic()
        if counters.expected[0] >= 0 and time.monotonic() > heard_at + QUIET_LIMIT_S:
            missing = sum(counters.expected[drain.lane] - drain.count for drain in drains)
            raise Refused(f"{missing} messages were never delivered")
    cpu = processes.own_cpu_seconds() - cpu
    parent.give(max(drain.last_at for drain in drains), sum(drain.count for drain in drains), cpu)
    for drain in drains:
        _wake_at(drain, 1)
        drain.client.close()


def _open_drain(address: Address, load: Load, lane: int) -> Drain:
    client = Client(address)
    client.open_channel()
    if load.prefetch:
        client.qos(load.prefetch)
    client.consume(load.queues[lane], auto_ack=load.ack_every == 0)
    drain = Drain(client, lane, memoryview(bytearray(READ_BYTES)))
    if load.ack_every == 1:
        drain.acks = wire.TagBlock(wire.ack(0, multiple=False), wire.ACK_TAG_OFFSET, 16384)
    return drain


def _read_some(drain: Drain, load: Load) -> bool:
    """Read what is there; return True if whole messages came."""
    try:
        if drain.shape is None:
            drain.client.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            drain.shape, raw = drain.client.read_delivery()
            drain.view[: len(raw)] = raw
            drain.filled = len(raw)
            # With a prefetch, wake up well before the broker would have to wait for acks.
            window = load.prefetch * drain.shape.size // 16
            _wake_at(drain, min(window, WAKE_BYTES) if window else WAKE_BYTES)
        else:
            drain.filled += drain.client.sock.recv_into(drain.view[drain.filled :], 0, socket.MSG_DONTWAIT) or _gone()
    except BlockingIOError:
        return False
    size = drain.shape.size
    whole = drain.filled // size
    if not whole:
        return False
    drain.count += whole
    drain.last_at = time.perf_counter()
    (tag,) = _TAG.unpack_from(drain.view, (whole - 1) * size + drain.shape.tag_offset)
    if tag != drain.count:
        raise Refused(f"delivery tag {tag} where {drain.count} was due")
    rest = drain.filled - whole * size
    drain.view[:rest] = drain.view[whole * size : drain.filled]
    drain.filled = rest
    if load.ack_every:
        _ack(drain, load.ack_every)
    return True


def _wake_at(drain: Drain, count: int) -> None:
    """Sleep until `count` bytes have arrived.

    Otherwise a broker that writes in small pieces would wake the generator for each, which costs the broker CPU time.
    """
    drain.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


def _gone() -> int:
    raise Refused("the broker closed the socket")


def _ack(drain: Drain, every: int) -> None:
    if drain.acks is None:
        due = range(drain.acked + every, drain.count + 1, every)
        if due:
            drain.client.sock.sendall(b"".join([wire.ack(tag, multiple=True) for tag in due]))
            drain.acked = due[-1]
        return
    while drain.acked < drain.count:
        frames = drain.acks.upto(drain.acked + 1, drain.count)
        drain.client.sock.sendall(frames)
        drain.acked += len(frames) // drain.acks.size

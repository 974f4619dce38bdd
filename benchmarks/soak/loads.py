"""The clients that disturb. Each load is a function that runs one round of some seconds against the broker.

If the broker refuses a round (406 for a transaction above its limit, a connection it closed), the refusal is counted
and the next round follows: it must not hurt other clients. Processes of loads run at the lowest priority, so that they
do not slow the broker and the well-behaved client down by a lack of CPU that the loads cause.
"""

import os
import select
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate

from benchmarks import wire
from benchmarks.children import Parent
from benchmarks.client import Address, Client, Refused
from benchmarks.openloop import Feed
from benchmarks.soak.board import Board

PREFIX = "soak."
FLOOD_S, FLOOD_BYTES, FLOOD_PUBLISHERS = 8.0, 2 * 2**30, 2
FLOOD_BLOCK = 1024 * 1024
FREE_DISK_BYTES = 8 * 2**30  # floods wait while less is free
SIZES = (16, 1024, 100 * 1024)
UNACKED_BYTES, UNACKED_S = 200 * 2**20, 10.0
SLOW_RATE, SLOW_CONSUMERS, SLOW_PREFETCH, SLOW_ACK_S, SLOW_S = 1000, 5, 10, 0.02, 20.0
HUGE_MB = (1, 8, 32, 127)
EXPIRING, EXPIRE_AFTER_S = 200_000, 8.0
TRANSACTION_BYTES = (4 * 2**20, 64 * 2**20, 256 * 2**20)
CHURN_MESSAGES, CHURN_PAUSE_S = 60, 0.1
CROWD, CROWD_ROUNDS = 300, 10

Round = Callable[[Address, int, Board], None]


def keep_going(parent: Parent, load: Round, address: Address, board: Board, slot: int) -> None:
    """Run rounds of `load` until the soak is over."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # on a busy machine the soak may be run with chrt
    os.nice(19)
    parent.ready()
    while not board.is_over:
        try:
            load(address, board.rounds[slot] + board.refusals[slot], board)
        except (Refused, OSError):
            board.refusals[slot] += 1
            time.sleep(0.5)
        else:
            board.rounds[slot] += 1
    parent.give()


@contextmanager
def opened(address: Address) -> Iterator[Client]:
    """Open a connection with a channel. The load drops it without a close handshake."""
    client = Client(address)
    try:
        client.open_channel()
        yield client
    finally:
        client.sock.close()


@contextmanager
def queue(
    address: Address, name: str, *, durable: bool = True, arguments: Mapping[str, wire.Value] | None = None
) -> Iterator[str]:
    """Declare a queue; at the end a separate connection deletes it."""
    with opened(address) as owner:
        owner.delete_queue(name)
        owner.declare_queue(name, durable=durable, arguments=arguments)
    try:
        yield name
    finally:
        with opened(address) as owner:
            owner.delete_queue(name)


def cycle(name: str, size: int, *, persistent: bool, count: int) -> list[bytes]:
    props = wire.properties(persistent=persistent)
    return [wire.publish("", name, f"{number:016}".encode().ljust(size, b"x"), props=props) for number in range(count)]


# Floods


def flood(address: Address, number: int, board: Board) -> None:
    """Publishers without confirms at full speed to a queue without consumers; kind and size change with every round."""
    size, persistent = SIZES[number % len(SIZES)], number // len(SIZES) % 2 == 0
    while shutil.disk_usage(".").free < FREE_DISK_BYTES and not board.is_over:
        time.sleep(1)
    with queue(address, f"{PREFIX}flood") as name, ExitStack() as stack:
        messages = cycle(name, size, persistent=persistent, count=max(1, FLOOD_BLOCK // (size + 60)))
        clients = [stack.enter_context(opened(address)) for _ in range(FLOOD_PUBLISHERS)]
        pour(clients, messages, FLOOD_S, FLOOD_BYTES, board)


def pour(clients: Sequence[Client], messages: Sequence[bytes], seconds: float, most: int, board: Board) -> int:
    """Write as fast as the sockets accept, up to `seconds` or `most` bytes; return the number of whole messages."""
    block = memoryview(b"".join(messages))
    ends = list(accumulate(len(message) for message in messages))
    feeds = {client.sock.fileno(): Feed(client, block, ends, most=0) for client in clients}
    writable = select.poll()
    for fd in feeds:
        writable.register(fd, select.POLLOUT)
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline and not board.is_over:
        for fd, _ in writable.poll(50):
            feeds[fd].send(len(block))
        if sum(feed.cycles for feed in feeds.values()) * len(block) > most:
            break
    return sum(feed.published for feed in feeds.values())


# Consumers that hold messages


def never_acks(address: Address, number: int, board: Board) -> None:
    """A consumer without a prefetch takes a backlog, acknowledges nothing, and disconnects."""
    with queue(address, f"{PREFIX}unacked") as name:
        with opened(address) as publisher:
            messages = cycle(name, 1024, persistent=number % 2 == 0, count=512)
            pour([publisher], messages, UNACKED_S, UNACKED_BYTES, board)
        with opened(address) as consumer:
            consumer.consume(name, auto_ack=False)
            read_for(consumer, UNACKED_S, board)


def read_for(client: Client, seconds: float, board: Board) -> None:
    view, deadline = memoryview(bytearray(256 * 1024)), time.perf_counter() + seconds
    readable = select.poll()
    readable.register(client.sock, select.POLLIN)
    while time.perf_counter() < deadline and not board.is_over:
        if readable.poll(100) and not client.sock.recv_into(view):
            raise Refused("the broker closed the socket")


def slow_consumers(address: Address, number: int, board: Board) -> None:
    """A work queue whose consumers are slower than its publisher; the backlog stays from one round to the next."""
    name = f"{PREFIX}slow"
    with ExitStack() as stack:
        publisher = stack.enter_context(opened(address))
        publisher.declare_queue(name, durable=True)
        consumers = [stack.enter_context(opened(address)) for _ in range(SLOW_CONSUMERS)]
        for consumer in consumers:
            consumer.qos(SLOW_PREFETCH)
            consumer.consume(name, auto_ack=False)
        message = b"".join(cycle(name, 1024, persistent=True, count=1))
        sent, tags, began = -SLOW_RATE, [0] * len(consumers), time.perf_counter()  # a second ahead
        while (elapsed := time.perf_counter() - began) < SLOW_S and not board.is_over:
            due = int(elapsed * SLOW_RATE)
            publisher.send(message * (due - sent))
            sent = due
            for at, consumer in enumerate(consumers):
                consumer.read_delivery()
                tags[at] += 1
                consumer.send(wire.ack(tags[at], multiple=False))
            time.sleep(SLOW_ACK_S)


# Large messages


def huge(address: Address, number: int, board: Board) -> None:
    """One message of 1 to 127 MB, confirmed, then fetched."""
    size = HUGE_MB[number % len(HUGE_MB)] * 2**20
    with queue(address, f"{PREFIX}huge") as name, opened(address) as client:
        client.select_confirms()
        props = wire.properties(persistent=number % 2 == 0)
        for piece in wire.pieces("", name, bytes(size), props=props):
            client.send(piece)
        client.expect(wire.ACK)
        client.call(wire.get(name, auto_ack=True), wire.GET_OK)
        client.read_frame()
        left = size
        while left > 0:
            left -= len(client.read_frame()[1])
        time.sleep(1)


def transactions(address: Address, number: int, board: Board) -> None:
    """Up to 256 MB in one transaction. The broker may refuse it."""
    total = TRANSACTION_BYTES[number % len(TRANSACTION_BYTES)]
    with queue(address, f"{PREFIX}transactions") as name, opened(address) as client:
        client.call(wire.method(1, wire.TX_SELECT), wire.TX_SELECT_OK)
        messages = b"".join(cycle(name, 10 * 1024, persistent=True, count=100))
        for _ in range(total // len(messages)):
            client.send(messages)
        client.call(wire.method(1, wire.TX_COMMIT), wire.TX_COMMIT_OK)
        time.sleep(1)


# Many objects


def expiry(address: Address, number: int, board: Board) -> None:
    """Hundreds of thousands of messages expire in the same moment and are dead-lettered."""
    with (
        queue(address, f"{PREFIX}expired") as dead,
        queue(
            address,
            f"{PREFIX}expiring",
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead},
        ) as name,
        opened(address) as publisher,
        opened(address) as consumer,
    ):
        consumer.consume(dead, auto_ack=True)
        due = time.perf_counter() + EXPIRE_AFTER_S
        for _ in range(EXPIRING // 1000):
            left_ms = max(1, int((due - time.perf_counter()) * 1000))
            props = wire.properties(persistent=number % 2 == 0, expiration=str(left_ms))
            publisher.send(wire.publish("", name, bytes(100), props=props) * 1000)
        read_for(consumer, max(0.0, due - time.perf_counter()) + 2, board)


def churn(address: Address, number: int, board: Board) -> None:
    """Create a connection, a channel and a queue with some messages; then delete everything."""
    with opened(address) as client:
        name = f"{PREFIX}churn.{number}"
        client.declare_queue(name)
        client.send(b"".join(cycle(name, 100, persistent=False, count=CHURN_MESSAGES)))
        client.consume(name, auto_ack=False)
        for _ in range(CHURN_MESSAGES):
            client.read_delivery()
        client.send(wire.ack(CHURN_MESSAGES, multiple=True))
        client.call(wire.method(1, wire.CANCEL, wire.shortstr("c") + b"\x00"), wire.CANCEL_OK)
        client.delete_queue(name)
        if number % 2:
            client.call(wire.close_channel(), wire.CHANNEL_CLOSE_OK)
    time.sleep(CHURN_PAUSE_S)


def crowd(address: Address, number: int, board: Board) -> None:
    """Hundreds of connections, each of which publishes once a second to a queue of its own with a length limit."""
    with ExitStack() as stack:
        clients = [stack.enter_context(opened(address)) for _ in range(CROWD)]
        for at, client in enumerate(clients):
            client.declare_queue(f"{PREFIX}crowd.{at}", arguments={"x-max-length": 10, "x-expires": 30_000})
        for _ in range(CROWD_ROUNDS):
            for at, client in enumerate(clients):
                client.send(wire.publish("", f"{PREFIX}crowd.{at}", bytes(100), props=wire.properties()))
            if board.is_over:
                break
            time.sleep(1)


LOADS: Mapping[str, Round] = {
    "flood": flood,
    "never-acks": never_acks,
    "slow-consumers": slow_consumers,
    "huge": huge,
    "transactions": transactions,
    "expiry": expiry,
    "churn": churn,
    "crowd": crowd,
}

"""Runs: consecutive messages that differ only in their bodies go through a queue together.

Most of a message's cost is the calls that pass it on and count it; a run pays them once. The only difference is speed:
each function here does for many messages what a method of the queue does for one. `admits_run` and `find_run` check
first whether messages need individual handling; if so, each takes the normal way.
"""

from rabbitlike.broker.message import Message
from rabbitlike.broker.ports import Subscriber
from rabbitlike.broker.queues.queue import Queue, done_with
from rabbitlike.broker.states import READY, UNACKED, UNLOGGED

#: How many messages are compared at once: more would cost too much when they differ.
LONGEST_RUN = 256


def admits_run(queue: Queue, memory_bytes: int) -> bool:
    """Return whether the queue can accept messages of this memory size without checking or storing any."""
    return queue.is_simple and queue.log is None and queue.ready.memory_bytes + memory_bytes <= queue.window_bytes


def enqueue_run(queue: Queue, messages: list[Message], body_bytes: int) -> None:
    """`Queue.enqueue` for many, after `admits_run`. The caller notifies the tracer."""
    for message in messages:
        message.position = queue.next_position
        queue.next_position += 1
    count = len(messages)
    queue.ready.push_run(messages, body_bytes)
    queue.counters.publish += count
    if messages[0].persistent:
        queue.persistent_count += count
        queue.persistent_bytes += body_bytes
    queue.turn.touch(queue)
    if queue.ready.memory_bytes > queue.congestion_bytes:
        queue.turn.note_congestion(queue)


def find_run(queue: Queue, like: Message, most: int) -> list[Message]:
    """Return up to ``most`` of the next messages that differ from ``like``, the last one taken, only in their bodies.
    They stay in the queue, and none has an empty body."""
    address = like.address
    properties = like.properties
    found: list[Message] = []
    if like.logged != UNLOGGED:
        return found  # the next ones are most likely logged as well: collecting them would be wasted
    for message in queue.ready.next(min(most, LONGEST_RUN)):
        if (
            message is None
            or message.address is not address
            or message.properties is not properties
            or len(message.body) == 0
            or message.state != READY
            or message.attempts != 0
            or message.expires_at_ms != 0
            or message.logged != UNLOGGED
        ):
            break
        found.append(message)
    return found


def take_run(queue: Queue, run: list[Message], consumer: Subscriber) -> None:
    """`Queue.take` for messages that `find_run` returned and the consumer was given."""
    now_ms = queue.turn.now_ms
    like = run[0]
    published_at_ms = like.published_at_ms
    since = 0  # how many messages of the run were published at that time
    body_bytes = 0
    for message in run:
        message.state = UNACKED
        body_bytes += len(message.body)
        if message.published_at_ms != published_at_ms:
            queue.wait_time.add(now_ms - published_at_ms, since)
            published_at_ms = message.published_at_ms
            since = 0
        since += 1
    queue.wait_time.add(now_ms - published_at_ms, since)
    count = len(run)
    queue.ready.pop_run(run, body_bytes)
    if consumer.no_ack:  # delivered means settled
        if like.persistent:
            queue.persistent_count -= count
            queue.persistent_bytes -= body_bytes
    else:
        queue.unacked_count += count
        queue.unacked_bytes += body_bytes
        if like.persistent:
            queue.unacked_persistent_count += count
            queue.unacked_persistent_bytes += body_bytes
    if queue.tracer is not None:
        queue.tracer.delivered_run(run, consumer)


def ack_run(queue: Queue, messages: list[Message], delivered_at_ms: int) -> None:
    """`Queue.ack` for messages that were delivered at the same time."""
    count = len(messages)
    queue.counters.ack += count
    queue.counters.active_at_ms = queue.turn.now_ms
    queue.processing_time.add(queue.turn.now_ms - delivered_at_ms, count)
    if queue.tracer is not None:
        queue.tracer.acked_run(messages, delivered_at_ms)
    for message in messages:
        done_with(queue, message)

"""The well-behaved client: every few milliseconds it publishes a message, waits for the confirm, and gets it back.

Two of them run. One publishes a transient message every 5 ms: it notices the broker alone and is held to the limits.
The other publishes a persistent one every 50 ms, whose confirm waits for the disk that the floods write to as well; its
times are reported, and none of its messages may be lost. Both check that they get what they published.
"""

import struct
import time
from array import array
from dataclasses import dataclass

from benchmarks import wire
from benchmarks.children import Child, Parent
from benchmarks.client import Address, Client, Refused

BODY_BYTES = 100
ANSWER_LIMIT_S = 120.0
_NUMBER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Times:
    """When each message was due, on the clock of all processes, and how long it took; and what went wrong."""

    at_s: "array[float]"
    took_ms: "array[float]"
    lost: int
    failure: str = ""


def measure(parent: Parent, address: Address, queue: str, every_s: float, persistent: bool) -> None:
    """A message that is due while the one before is still on its way is timed from when it was due: a stall of a second
    is seen by 200 messages, not by one. A late wake-up of this process is not the broker's doing."""
    at_s, took_ms = array("d"), array("d")
    lost = number = 0
    with Client(address) as client:
        client.open_channel()
        client.declare_queue(queue, durable=persistent)
        client.select_confirms()
        props = wire.properties(persistent=persistent)
        parent.ready()
        due, is_last = time.perf_counter(), False
        while not is_last:
            number += 1
            lost += not _is_returned(client, queue, number, props)
            now = time.perf_counter()
            at_s.append(due)
            took_ms.append((now - due) * 1000)
            due += every_s
            is_last = parent.is_started(max(0.0, due - now))
            if due > now:
                due = time.perf_counter()
        client.delete_queue(queue)
    parent.give(lost, *at_s, *took_ms)


def take(child: Child) -> Times:
    """End the measurement."""
    try:
        child.start()
        lost, *figures = child.take(ANSWER_LIMIT_S)
    except (OSError, EOFError, Refused) as error:
        return Times(array("d"), array("d"), 0, str(error) or type(error).__name__)
    half = len(figures) // 2
    return Times(array("d", figures[:half]), array("d", figures[half:]), int(lost))


def _is_returned(client: Client, queue: str, number: int, props: bytes) -> bool:
    """Publish, await the confirm, get. A confirmed message that does not come back, or not as it was, is lost."""
    body = _NUMBER.pack(number).ljust(BODY_BYTES, b".")
    client.send(wire.publish("", queue, body, props=props))
    tag, _ = struct.unpack(">QB", client.expect(wire.ACK))
    if tag != number:
        raise Refused(f"confirm {tag} where {number} was due")
    client.send(wire.get(queue, auto_ack=True))
    kind, payload, _ = client.read_frame()
    method = struct.unpack_from(">HH", payload)
    if kind == wire.METHOD and method == wire.GET_EMPTY:
        return False
    if kind != wire.METHOD or method != wire.GET_OK:
        raise Refused(f"expected the message, got method {method}")
    client.read_frame()
    return client.read_frame()[1] == body

"""Messages like those of applications, encoded before the measurement: own ids, own headers, own sizes.

A cycle of `CYCLE` messages is sent again and again. All of them differ, so a broker that caches the last message or
header gains nothing, while the generator only writes ready-made bytes. Every message carries its id in the first
`ID_BYTES` of its body, and in its message-id if it has one: a consumer can check both.
"""

import random
import uuid
from collections.abc import Callable

from benchmarks import wire

CYCLE = 2048
ID_BYTES = 36
SMALLEST, LARGEST = 64, 16 * 1024
_EPOCH = 1_790_000_000

Encode = Callable[[str, int], list[bytes]]  # the queue and the publisher's number → one cycle of messages as frames


def own_bodies(size: int, *, persistent: bool = False) -> Encode:
    """Each message has the same properties and its own body."""

    def encode(queue: str, publisher: int) -> list[bytes]:
        props = wire.properties(persistent=persistent)
        return [wire.publish("", queue, body(each, size), props=props) for each in ids(publisher)]

    return encode


def own_properties(size: int, *, persistent: bool = False) -> Encode:
    """Each message has its own message-id, correlation-id, timestamp and five headers."""

    def encode(queue: str, publisher: int) -> list[bytes]:
        chance = random.Random(publisher)
        return [
            wire.publish("", queue, body(each, size), props=properties(each, number, chance, persistent=persistent))
            for number, each in enumerate(ids(publisher))
        ]

    return encode


def own_sizes(*, persistent: bool = False) -> Encode:
    """Equal properties and bodies of 64 B to 16 KB: most are small, the mean is near 1 KB."""

    def encode(queue: str, publisher: int) -> list[bytes]:
        chance = random.Random(publisher)
        return [
            wire.publish(
                "",
                queue,
                body(each, random_size(chance)),
                props=properties(each, number, chance, persistent=persistent),
            )
            for number, each in enumerate(ids(publisher))
        ]

    return encode


def ids(publisher: int) -> list[str]:
    """Return UUIDs that are the same in every run and differ between publishers."""
    chance = random.Random(f"publisher {publisher}")
    return [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(CYCLE)]


def body(message_id: str, size: int) -> bytes:
    return message_id.encode().ljust(size, b"x")


def random_size(chance: random.Random) -> int:
    return min(LARGEST, max(SMALLEST, int(chance.lognormvariate(6.2, 1.1))))


def properties(message_id: str, number: int, chance: random.Random, *, persistent: bool) -> bytes:
    """Build a property list. All lists have one length, so the body of a delivery is always at the same offset."""
    headers: dict[str, wire.Value] = {
        "trace-id": f"{chance.getrandbits(128):032x}",
        "tenant": f"tenant-{chance.randrange(10_000):04}",
        "schema-version": number % 7,
        "attempt": number,
        "is-replay": number % 2 == 1,
    }
    return wire.properties(
        persistent=persistent,
        headers=headers,
        correlation_id=str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        message_id=message_id,
        timestamp=_EPOCH + number,
    )

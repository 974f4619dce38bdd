"""Counters, from which rates and totals are computed.

Counts only increase. A channel counts its client's operations, a queue its messages' events, an exchange the messages
that pass it; a vhost counts the operations of all its channels, including closed ones. Written on the hot path.
"""

from dataclasses import dataclass

#: Bounds of the buckets of a Timing, each for durations below its bound; one more bucket counts the rest.
BOUNDS_MS = tuple(1 << power for power in range(23))

#: Upper bounds of the buckets of Sizes; one more bucket counts larger messages. parity
SIZES = (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)

#: The names of all counts, as in `message_stats`.
NAMES = (
    "publish",
    "publish_in",
    "publish_out",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "redeliver",
    "ack",
    "disk_reads",
    "disk_writes",
)


class Counters:
    """The counts of one queue, channel, exchange or vhost; counts that do not apply stay 0."""

    __slots__ = ("active_at_ms", *NAMES)

    def __init__(self, now_ms: int) -> None:
        #: Time of the last count.
        self.active_at_ms = now_ms
        self.publish = 0
        self.publish_in = 0
        self.publish_out = 0
        self.confirm = 0
        self.return_unroutable = 0
        self.drop_unroutable = 0
        self.deliver = 0
        self.deliver_no_ack = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0
        self.redeliver = 0
        self.ack = 0
        self.disk_reads = 0
        self.disk_writes = 0

    @property
    def deliver_get(self) -> int:
        """All deliveries. parity: by basic.deliver and basic.get, with and without ack."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack


class Timing:
    """Durations, as a histogram with powers of two milliseconds as bounds."""

    __slots__ = ("_buckets", "at_once", "total_ms")

    def __init__(self) -> None:
        self._buckets = [0] * 24
        #: Durations of 0 ms: usually most of them, so callers increment this in place, without a call.
        self.at_once = 0
        self.total_ms = 0

    @property
    def count(self) -> int:
        return sum(self.buckets())

    def add(self, took_ms: int, count: int = 1) -> None:
        """Add ``count`` durations of ``took_ms`` each."""
        if took_ms == 0:
            self.at_once += count
            return
        at = 0
        bound_ms = 1
        while took_ms >= bound_ms and at < 23:
            bound_ms += bound_ms
            at += 1
        self._buckets[at] += count
        self.total_ms += took_ms * count

    def take_over(self, other: "Timing") -> None:
        """Add the counts of another timing."""
        for at, count in enumerate(other.buckets()):
            self._buckets[at] += count
        self.total_ms += other.total_ms

    def buckets(self) -> list[int]:
        """Counts of durations below the first bound, between the first and the second, and so on."""
        buckets = list(self._buckets)
        buckets[0] += self.at_once
        return buckets


class Sizes:
    """Sizes of published messages, as a histogram."""

    __slots__ = ("_bounds", "_buckets", "total")

    def __init__(self) -> None:
        self._bounds = list(SIZES)
        self._buckets = [0] * 9
        #: Octets of all messages.
        self.total = 0

    def add(self, size: int, count: int = 1) -> None:
        at = 0
        while at < 8 and size > self._bounds[at]:
            at += 1
        self._buckets[at] += count
        self.total += size * count

    def add_run(self, bodies: list[bytes]) -> None:
        """Add a run of bodies. Most have the same length as the one before."""
        size = count = 0
        for body in bodies:
            if len(body) != size:
                self.add(size, count)
                size = len(body)
                count = 0
            count += 1
        self.add(size, count)

    def buckets(self) -> list[int]:
        return list(self._buckets)


@dataclass(slots=True)
class Churn:
    """Connections, channels and queues created and closed or deleted since the start."""

    connections_created: int = 0
    connections_closed: int = 0
    channels_created: int = 0
    channels_closed: int = 0
    #: parity: declared counts every declaration, including those of existing queues.
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0

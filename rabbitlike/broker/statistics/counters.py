"""What happened how often: the counts that rates and totals are made of.

Counts only grow. A channel counts what its client did, a queue what befell its messages, an exchange what passed it; a
vhost counts what all its channels did, those that are gone included. Read by whoever likes, written on the hot path.
"""

from dataclasses import dataclass

#: A Timing has a bucket for each of these bounds, for what took less, and one more for all the rest.
BOUNDS_MS = tuple(1 << power for power in range(23))

#: Sizes has a bucket for each of these, for what is no larger, and one more for all the rest. parity
SIZES = (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)

#: The counts of a Counters, by the names they have in `message_stats`.
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
    """The counts of one queue, channel, exchange or vhost; each leaves at 0 what is not its own."""

    __slots__ = ("active_at_ms", *NAMES)

    def __init__(self, now_ms: int) -> None:
        #: When something was counted last.
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
        """parity: everything handed out, however it was asked for."""
        return self.deliver + self.deliver_no_ack + self.get + self.get_no_ack


class Timing:
    """How long something took, as a histogram in powers of two milliseconds."""

    __slots__ = ("_buckets", "at_once", "total_ms")

    def __init__(self) -> None:
        self._buckets = [0] * 24
        #: What took no time at all: by far the most, where all is well, and so counted in place, without a call.
        self.at_once = 0
        self.total_ms = 0

    @property
    def count(self) -> int:
        return sum(self.buckets())

    def add(self, took_ms: int, count: int = 1) -> None:
        """So many took so long, each."""
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
        """Add all that another has counted."""
        for at, count in enumerate(other.buckets()):
            self._buckets[at] += count
        self.total_ms += other.total_ms

    def buckets(self) -> list[int]:
        """How many took less than the first bound, how many less than the second but not less than the first, …."""
        buckets = list(self._buckets)
        buckets[0] += self.at_once
        return buckets


class Sizes:
    """How large messages were that clients published, as a histogram."""

    __slots__ = ("_bounds", "_buckets", "total")

    def __init__(self) -> None:
        self._bounds = list(SIZES)
        self._buckets = [0] * 9
        #: Octets of all of them.
        self.total = 0

    def add(self, size: int, count: int = 1) -> None:
        at = 0
        while at < 8 and size > self._bounds[at]:
            at += 1
        self._buckets[at] += count
        self.total += size * count

    def add_run(self, bodies: list[bytes]) -> None:
        """Most are as long as the one before."""
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
    """What came and went since the broker started."""

    connections_created: int = 0
    connections_closed: int = 0
    channels_created: int = 0
    channels_closed: int = 0
    #: parity: declared counts every declaration, also of a queue that is there.
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0

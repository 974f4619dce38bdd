"""The kinds of sampled objects: their numbers, and where to read them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.management.statistics.history import DETAIL_ROWS, Shape, Values

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: Prefixes of the parameters that ask for history: `lengths_age` etc.
Group = Literal["lengths", "msg_rates", "data_rates", "node_stats"]

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
HANDED_OUT: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
#: Counts of deliveries, gets and acks, always shown together.
OUT: Final = (*HANDED_OUT, "get_empty", "redeliver", "ack")
IN: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DISK: Final = ("disk_reads", "disk_writes")
OCTETS: Final = ("recv_oct", "send_oct")
#: Names in the API, and in the broker.
CHURNED: Final = {
    "connection_created": "connections_created",
    "connection_closed": "connections_closed",
    "channel_created": "channels_created",
    "channel_closed": "channels_closed",
    "queue_declared": "queues_declared",
    "queue_created": "queues_created",
    "queue_deleted": "queues_deleted",
}
#: Numbers of the process: first lengths, then counts.
NODE_LENGTHS: Final = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")
NODE_COUNTS: Final = (
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
    "io_sync_time_us",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
    "io_seek_count",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "queue_index_read_count",
    "queue_index_write_count",
)

#: Numbers that are sums of others.
DERIVED: Final = {"deliver_get": HANDED_OUT}


class Kind:
    """One kind of sampled objects."""

    __slots__ = ("details", "is_long", "is_measured", "places", "read", "rows", "shape", "shown")

    def __init__(
        self,
        shape: Shape,
        read: Callable[[Any], Values],
        *,
        shown: dict[Group, tuple[str, ...]] | None = None,
        is_long: bool = False,
        is_measured: bool = False,
        rows: int = DETAIL_ROWS,
    ) -> None:
        self.shape = shape
        #: Reads the numbers of one object, in the order of the shape.
        self.read = read
        #: Sampled fields of the view itself, outside `message_stats`, by the group that asks for their history.
        self.shown = shown or {}
        #: Whether history covers a day instead of ten minutes.
        self.is_long = is_long
        #: Number of samples of history, if not a day.
        self.rows = rows
        #: Whether the numbers did not start at 0 when the object appeared.
        self.is_measured = is_measured
        #: Sampled fields of the view, with the names of their details.
        self.details = {name: f"{name}_details" for names in self.shown.values() for name in names}
        #: For each number, the columns whose sum it is.
        self.places: dict[str, tuple[int, ...]] = {name: (at,) for at, name in enumerate(shape.names)}
        for name, parts in DERIVED.items():
            if all(part in self.places for part in parts):
                self.places[name] = tuple(shape.names.index(part) for part in parts)


def _counts(*names: str) -> Callable[[Any], Values]:
    return attrgetter(*(f"counters.{name}" for name in names))


_QUEUE_COUNTS: Final = ("publish", *OUT, *DISK)
_counts_of_queue = _counts(*_QUEUE_COUNTS)


def lengths(queue: Queue) -> Values:
    return (
        queue_metrics.messages(queue),
        queue_metrics.messages_ready(queue),
        queue_metrics.messages_unacknowledged(queue),
    )


QUEUE: Final = Kind(
    Shape(LENGTHS, _QUEUE_COUNTS),
    lambda queue: (*lengths(queue), *_counts_of_queue(queue)),
    shown={"lengths": LENGTHS},
)
#: A level of a queue with several levels.
LEVEL: Final = Kind(Shape((), ("enqueued", "dequeued")), attrgetter("enqueued", "dequeued"))
EXCHANGE: Final = Kind(Shape((), ("publish_in", "publish_out")), _counts("publish_in", "publish_out"))
CHANNEL: Final = Kind(Shape((), (*IN, *OUT)), _counts(*IN, *OUT))
#: Counts of pairs: channel and exchange, channel and queue, exchange and queue. There may be many, so history is one
#: minute, which is what management pages ask for.
PAIR_ROWS: Final = 13
PUBLISHES: Final = Kind(Shape((), IN), attrgetter(*IN), rows=PAIR_ROWS)
TAKES: Final = Kind(Shape((), OUT), attrgetter(*OUT), rows=PAIR_ROWS)
INLET: Final = Kind(Shape((), ("publish",)), lambda counters: (counters.publish,), rows=PAIR_ROWS)
CONNECTION: Final = Kind(Shape((), OCTETS, "Q"), attrgetter(*OCTETS), shown={"data_rates": OCTETS})
#: Lengths are sums over its queues, which the sampler computes.
VHOST: Final = Kind(
    Shape(LENGTHS, (*IN, *OUT, *DISK, *OCTETS), "Q"),
    attrgetter(*(f"counters.{name}" for name in (*IN, *OUT, *DISK)), *OCTETS),
    shown={"lengths": LENGTHS, "data_rates": OCTETS},
    is_long=True,
)
CHURN: Final = Kind(
    Shape((), tuple(CHURNED), "Q"), attrgetter(*CHURNED.values()), shown={"lengths": tuple(CHURNED)}, is_long=True
)
NODE: Final = Kind(
    Shape(NODE_LENGTHS, NODE_COUNTS, "Q"),
    tuple,
    shown={"node_stats": (*NODE_LENGTHS, *NODE_COUNTS)},
    is_long=True,
    is_measured=True,
)

"""The kinds of objects that are sampled: which of their numbers, and where those are found."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.management.statistics.history import DETAIL_ROWS, Shape, Values

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

#: What history is asked for with: `lengths_age` and so on.
Group = Literal["lengths", "msg_rates", "data_rates", "node_stats"]

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
HANDED_OUT: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
#: What befalls messages on their way out, always said together.
OUT: Final = (*HANDED_OUT, "get_empty", "redeliver", "ack")
IN: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DISK: Final = ("disk_reads", "disk_writes")
OCTETS: Final = ("recv_oct", "send_oct")
#: As the API calls them, and as the broker does.
CHURNED: Final = {
    "connection_created": "connections_created",
    "connection_closed": "connections_closed",
    "channel_created": "channels_created",
    "channel_closed": "channels_closed",
    "queue_declared": "queues_declared",
    "queue_created": "queues_created",
    "queue_deleted": "queues_deleted",
}
#: Of the process: what rises and falls, and what only grows.
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
    """One kind of objects."""

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
        #: Its numbers, of one object, in the order of the shape.
        self.read = read
        #: Which stand in the view itself, beside `message_stats`, by what their history is asked for with.
        self.shown = shown or {}
        #: A day of history instead of ten minutes.
        self.is_long = is_long
        #: So many samples of history, if not a day.
        self.rows = rows
        #: Numbers that did not begin at 0 when the object appeared.
        self.is_measured = is_measured
        #: The numbers in the view whose details are asked for, and how those are called.
        self.details = {name: f"{name}_details" for names in self.shown.values() for name in names}
        #: The columns each number is the sum of.
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
#: A level of a queue that has more than the lowest.
LEVEL: Final = Kind(Shape((), ("enqueued", "dequeued")), attrgetter("enqueued", "dequeued"))
EXCHANGE: Final = Kind(Shape((), ("publish_in", "publish_out")), _counts("publish_in", "publish_out"))
CHANNEL: Final = Kind(Shape((), (*IN, *OUT)), _counts(*IN, *OUT))
#: What a channel and an exchange, a channel and a queue, an exchange and a queue count together. There may be many of
#: them: a minute of history, which is what pages ask for.
PAIR_ROWS: Final = 13
PUBLISHES: Final = Kind(Shape((), IN), attrgetter(*IN), rows=PAIR_ROWS)
TAKES: Final = Kind(Shape((), OUT), attrgetter(*OUT), rows=PAIR_ROWS)
INLET: Final = Kind(Shape((), ("publish",)), lambda counters: (counters.publish,), rows=PAIR_ROWS)
CONNECTION: Final = Kind(Shape((), OCTETS, "Q"), attrgetter(*OCTETS), shown={"data_rates": OCTETS})
#: Lengths are the sum of its queues', which the sampler has at hand.
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

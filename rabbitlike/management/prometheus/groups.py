"""Metrics of single objects, in groups under the family names that `/metrics/detailed` takes.

parity: names, types, help texts and labels are those of RabbitMQ's plugin, even where they surprise: the name of a
connection is in the label `channel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from rabbitlike.broker.statistics import queue_metrics
from rabbitlike.broker.views import text

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker, Client, ClientChannel
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.queues.queue import Queue

Row = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Number:
    """One metric: its name without prefix, whether it is a counter, and its help text."""

    name: str
    help: str
    is_count: bool = False
    #: Whether the sum over all objects is meaningful.
    has_sum: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """Numbers that are read together, for every object of one kind."""

    name: str
    objects: Callable[[Broker, frozenset[str] | None], Iterable[Any]]
    labels: Callable[[Any], str]
    numbers: tuple[Number, ...]
    #: Reads the numbers of one object; None for a number it does not have.
    read: Callable[[Any], Row]


def head(name: str, said: str, kind: str) -> str:
    """The HELP and TYPE lines before a metric."""
    return f"# HELP {name} {said}\n# TYPE {name} {kind}\n"


def label(value: str) -> str:
    """A label value, escaped for the text between quotes."""
    return text(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


# Objects


def queues(broker: Broker, vhosts: frozenset[str] | None) -> Iterator[Queue]:
    for name, vhost in list(broker.vhosts.items()):
        if vhosts is None or name in vhosts:
            yield from list(vhost.queues.values())


def exchanges(broker: Broker, vhosts: frozenset[str] | None) -> Iterator[Exchange]:
    for name, vhost in list(broker.vhosts.items()):
        if vhosts is None or name in vhosts:
            yield from list(vhost.exchanges.values())


def connections(broker: Broker, vhosts: frozenset[str] | None) -> Iterator[Client]:
    """parity: the filter by vhost applies to queues and exchanges only."""
    for client in list(broker.connections):
        if client.is_open:
            yield client


def channels(broker: Broker, vhosts: frozenset[str] | None) -> Iterator[ClientChannel]:
    for client in connections(broker, vhosts):
        yield from client.open_channels()


def of_queue(queue: Queue) -> str:
    return f'vhost="{label(queue.vhost.name)}",queue="{label(queue.name)}"'


def of_exchange(exchange: Exchange) -> str:
    return f'vhost="{label(exchange.vhost)}",exchange="{label(exchange.name)}"'


def _by_name(named: Client | ClientChannel) -> str:
    return f'channel="{label(named.name)}"'


# Numbers


def _queue_coarse(queue: Queue) -> Row:
    return (
        queue_metrics.messages_ready(queue),
        queue_metrics.messages_unacknowledged(queue),
        queue_metrics.messages(queue),
        0,
    )


def _queue(queue: Queue) -> Row:
    capacity = queue_metrics.consumer_capacity(queue)
    return (
        queue_metrics.consumers(queue),
        capacity,
        capacity,
        queue_metrics.memory(queue),
        queue_metrics.messages_ram(queue),
        queue_metrics.message_bytes_ram(queue),
        queue_metrics.messages_ready_ram(queue),
        queue_metrics.messages_unacknowledged_ram(queue),
        queue_metrics.messages_persistent(queue),
        queue_metrics.message_bytes_persistent(queue),
        queue_metrics.message_bytes(queue),
        queue_metrics.message_bytes_ready(queue),
        queue_metrics.message_bytes_unacknowledged(queue),
        queue_metrics.messages_paged_out(queue),
        queue_metrics.message_bytes_paged_out(queue),
        queue_metrics.head_message_timestamp(queue),
        queue.counters.disk_reads,
        queue.counters.disk_writes,
    )


def _channel(channel: ClientChannel) -> Row:
    view = channel.view()
    return [number for number in (view[name] for name in _CHANNEL_FIELDS) if isinstance(number, int)]


def _connection(client: Client) -> Row:
    view = client.view()
    return [number for number in (view[name] for name in _CONNECTION_FIELDS) if isinstance(number, int)]


def _counts(*names: str) -> Callable[[Any], Row]:
    return attrgetter(*(f"counters.{name}" for name in names))


_CHANNEL_FIELDS: Final = (
    "consumer_count",
    "messages_unacknowledged",
    "messages_unconfirmed",
    "messages_uncommitted",
    "acks_uncommitted",
    "prefetch_count",
    "global_prefetch_count",
)
_CONNECTION_FIELDS: Final = ("recv_cnt", "send_cnt", "send_pend", "channels")
IN: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
OUT: Final = ("get", "get_no_ack", "deliver", "deliver_no_ack", "redeliver", "ack", "get_empty")

QUEUE_COARSE: Final = Group(
    "queue_coarse_metrics",
    queues,
    of_queue,
    (
        Number("queue_messages_ready", "Messages ready to be delivered to consumers"),
        Number("queue_messages_unacked", "Messages delivered to consumers but not yet acknowledged"),
        Number("queue_messages", "Sum of ready and unacknowledged messages - total queue depth"),
        Number("queue_process_reductions_total", "Total number of queue process reductions", is_count=True),
    ),
    _queue_coarse,
)
QUEUE_CONSUMERS: Final = Group(
    "queue_consumer_count",
    queues,
    of_queue,
    (Number("queue_consumers", "Consumers on a queue"),),
    lambda queue: (queue_metrics.consumers(queue),),
)
QUEUE: Final = Group(
    "queue_metrics",
    queues,
    of_queue,
    (
        Number("queue_consumers", "Consumers on a queue"),
        Number("queue_consumer_capacity", "Consumer capacity"),
        Number("queue_consumer_utilisation", "Same as consumer capacity"),
        Number("queue_process_memory_bytes", "Memory in bytes used by the Erlang queue process"),
        Number("queue_messages_ram", "Ready and unacknowledged messages stored in memory"),
        Number("queue_messages_ram_bytes", "Size of ready and unacknowledged messages stored in memory"),
        Number("queue_messages_ready_ram", "Ready messages stored in memory"),
        Number("queue_messages_unacked_ram", "Unacknowledged messages stored in memory"),
        Number("queue_messages_persistent", "Persistent messages"),
        Number("queue_messages_persistent_bytes", "Size in bytes of persistent messages"),
        Number("queue_messages_bytes", "Size in bytes of ready and unacknowledged messages"),
        Number("queue_messages_ready_bytes", "Size in bytes of ready messages"),
        Number("queue_messages_unacked_bytes", "Size in bytes of all unacknowledged messages"),
        Number("queue_messages_paged_out", "Messages paged out to disk"),
        Number("queue_messages_paged_out_bytes", "Size in bytes of messages paged out to disk"),
        Number("queue_head_message_timestamp", "Timestamp of the first message in the queue, if any", has_sum=False),
        Number("queue_disk_reads_total", "Total number of times queue read messages from disk", is_count=True),
        Number("queue_disk_writes_total", "Total number of times queue wrote messages to disk", is_count=True),
    ),
    _queue,
)


def _out(kind: str, what: str) -> tuple[Number, ...]:
    """parity: queues and channels have the same seven."""
    delivered = "Total number of messages"
    return (
        Number(
            f"{kind}_get_ack_total", f"{delivered} fetched {what}with basic.get in manual acknowledgement mode", True
        ),
        Number(
            f"{kind}_get_total", f"{delivered} fetched {what}with basic.get in automatic acknowledgement mode", True
        ),
        Number(
            f"{kind}_messages_delivered_ack_total",
            f"{delivered} delivered {what}to consumers in manual acknowledgement mode",
            True,
        ),
        Number(
            f"{kind}_messages_delivered_total",
            f"{delivered} delivered {what}to consumers in automatic acknowledgement mode",
            True,
        ),
        Number(f"{kind}_messages_redelivered_total", f"{delivered} redelivered {what}to consumers", True),
        Number(f"{kind}_messages_acked_total", f"{delivered} acknowledged by consumers", True),
        Number(f"{kind}_get_empty_total", "Total number of times basic.get operations fetched no message", True),
    )


def _in(kind: str) -> tuple[Number, ...]:
    published = "Total number of messages published"
    return (
        Number(f"{kind}_messages_published_total", f"{published} into an exchange", True),
        Number(f"{kind}_messages_confirmed_total", f"{published} into an exchange and confirmed", True),
        Number(
            f"{kind}_messages_unroutable_returned_total",
            f"{published} as mandatory into an exchange and returned to the publisher as unroutable",
            True,
        ),
        Number(
            f"{kind}_messages_unroutable_dropped_total",
            f"{published} as non-mandatory into an exchange and dropped as unroutable",
            True,
        ),
    )


QUEUE_DELIVERY: Final = Group("queue_delivery_metrics", queues, of_queue, _out("queue", "from a queue "), _counts(*OUT))
QUEUE_PUBLISH: Final = Group(
    "channel_queue_exchange_metrics",
    queues,
    of_queue,
    (Number("queue_messages_published_total", "Total number of messages published into a queue", True),),
    lambda queue: (queue.counters.publish,),
)
CHANNEL: Final = Group(
    "channel_metrics",
    channels,
    _by_name,
    (
        Number("channel_consumers", "Consumers on a channel"),
        Number("channel_messages_unacked", "Delivered but not yet acknowledged messages"),
        Number("channel_messages_unconfirmed", "Published but not yet confirmed messages"),
        Number("channel_messages_uncommitted", "Messages received in a transaction but not yet committed"),
        Number("channel_acks_uncommitted", "Message acknowledgements in a transaction not yet committed"),
        Number("consumer_prefetch", "Limit of unacknowledged messages for each consumer"),
        Number("channel_prefetch", "Total limit of unacknowledged messages for all consumers on a channel"),
    ),
    _channel,
)
CHANNEL_EXCHANGE: Final = Group("channel_exchange_metrics", channels, _by_name, _in("channel"), _counts(*IN))
CHANNEL_QUEUE: Final = Group("channel_queue_metrics", channels, _by_name, _out("channel", ""), _counts(*OUT))
CONNECTION_COARSE: Final = Group(
    "connection_coarse_metrics",
    connections,
    _by_name,
    (
        Number("connection_incoming_bytes_total", "Total number of bytes received on a connection", True),
        Number("connection_outgoing_bytes_total", "Total number of bytes sent on a connection", True),
        Number("connection_process_reductions_total", "Total number of connection process reductions", True),
    ),
    lambda client: (client.recv_oct, client.send_oct, 0),
)
CONNECTION: Final = Group(
    "connection_metrics",
    connections,
    _by_name,
    (
        Number("connection_incoming_packets_total", "Total number of packets received on a connection", True),
        Number("connection_outgoing_packets_total", "Total number of packets sent on a connection", True),
        Number("connection_pending_packets", "Number of packets waiting to be sent on a connection"),
        Number("connection_channels", "Channels on a connection"),
    ),
    _connection,
)
EXCHANGE: Final = Group("exchange_metrics", exchanges, of_exchange, _in("exchange"), _counts("publish_in", *IN[1:]))

#: In the order written.
GROUPS: Final = (
    QUEUE_COARSE,
    QUEUE,
    QUEUE_DELIVERY,
    QUEUE_PUBLISH,
    CHANNEL,
    CHANNEL_EXCHANGE,
    CHANNEL_QUEUE,
    CONNECTION_COARSE,
    CONNECTION,
    EXCHANGE,
)
BY_NAME: Final = {group.name: group for group in (*GROUPS, QUEUE_CONSUMERS)}

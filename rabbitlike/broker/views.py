"""Views of vhosts, exchanges, bindings and queues for the management API: dicts with RabbitMQ's field names.

They contain only plain values, ready for JSON. Each view reads only its own object: no walk over messages, no page read
from disk, so that a list of ten thousand queues is cheap. The sampler of the counters adds rates.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from rabbitlike.broker.bindings import properties_key_of
from rabbitlike.broker.policies.policies import effective_definition
from rabbitlike.broker.policies.webhook_urls import masked_definition
from rabbitlike.broker.statistics import queue_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.broker import Client
    from rabbitlike.broker.exchanges import Exchange
    from rabbitlike.broker.publishing.deduplication import Deduplication
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.statistics.counters import Counters
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.config import BrokerSettings
    from rabbitlike.protocol.tables import Value

#: Bools, numbers, strings, None, and lists and dicts of these.
View: TypeAlias = "dict[str, object]"

#: parity: a queue without activity for this long is idle.
IDLE_MS: Final = 1000

#: This broker has no garbage collector per queue or channel, but clients that decode strictly expect the keys.
GARBAGE: Final[View] = {
    "fullsweep_after": 65535,
    "max_heap_size": 0,
    "min_bin_vheap_size": 46422,
    "min_heap_size": 233,
    "minor_gcs": 0,
}


#: Determined once, because views are made for thousands of queues.
_NODE: Final = f"rabbitlike@{platform.node().partition('.')[0]}"


def node_name(settings: BrokerSettings) -> str:
    """The name of the only node, in RabbitMQ's form."""
    return _NODE


# Values


def text(name: str) -> str:
    """A name for JSON. Octets that are not UTF-8, which names may contain, become replacement characters."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def plain(value: Value) -> object:
    """A field value for JSON. Numbers stay numbers; octets are decoded as text."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return table(value)
    return [plain(item) for item in value]


def table(values: Mapping[str, Value]) -> View:
    """A field table for JSON."""
    if not values:
        return {}
    return {text(key): plain(value) for key, value in values.items()}


def instant(at_ms: int) -> str:
    """A time in RabbitMQ's format."""
    return f"{_second(at_ms // 1000)}.{at_ms % 1000:03d}+00:00"


@lru_cache(maxsize=4096)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


# Counts


def queue_stats(counters: Counters) -> dict[str, int]:
    """`message_stats` of a queue without rates. parity: a group of counts appears once any of them is not 0."""
    stats = _deliver_stats(counters)
    if counters.publish:
        stats["publish"] = counters.publish
    if counters.disk_reads or counters.disk_writes:
        stats["disk_reads"] = counters.disk_reads
        stats["disk_writes"] = counters.disk_writes
    return stats


def channel_stats(counters: Counters) -> dict[str, int]:
    """`message_stats` of a channel, or of all channels of a vhost."""
    stats = _deliver_stats(counters)
    if counters.publish or counters.confirm:
        stats["publish"] = counters.publish
        stats["confirm"] = counters.confirm
        stats["return_unroutable"] = counters.return_unroutable
        stats["drop_unroutable"] = counters.drop_unroutable
    return stats


def exchange_stats(counters: Counters) -> dict[str, int]:
    stats = {}
    if counters.publish_in:
        stats["publish_in"] = counters.publish_in
    if counters.publish_out:
        stats["publish_out"] = counters.publish_out
    return stats


def _deliver_stats(counters: Counters) -> dict[str, int]:
    deliver_get = counters.deliver_get
    if not (deliver_get or counters.get_empty or counters.ack):
        return {}
    return {
        "ack": counters.ack,
        "deliver": counters.deliver,
        "deliver_get": deliver_get,
        "deliver_no_ack": counters.deliver_no_ack,
        "get": counters.get,
        "get_empty": counters.get_empty,
        "get_no_ack": counters.get_no_ack,
        "redeliver": counters.redeliver,
    }


# Vhosts, exchanges, bindings


def vhost(vhost: Vhost, sums: queue_metrics.Sums) -> View:
    """A vhost for lists. ``sums``: totals of its queues, which the caller can add up in slices."""
    said: View = {"description": text(vhost.description), "tags": [text(tag) for tag in vhost.tags]}
    metadata = said.copy()
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    if vhost.is_protected:
        metadata["protected_from_deletion"] = True
    view: View = {
        "name": text(vhost.name),
        **said,
        "default_queue_type": vhost.default_queue_type or "undefined",
        "metadata": metadata,
        "protected_from_deletion": vhost.is_protected,
        "tracing": vhost.is_traced,
        "cluster_state": {node_name(vhost.broker.settings): "running"},
    }
    if vhost.recv_oct or vhost.queues:
        # parity: a vhost that was never used has none of these fields.
        view.update(
            recv_oct=vhost.recv_oct,
            send_oct=vhost.send_oct,
            messages=sums.messages,
            messages_ready=sums.messages_ready,
            messages_unacknowledged=sums.messages_unacknowledged,
        )
    if vhost.delays.pending:
        view["messages_delayed"] = vhost.delays.pending
    if stats := channel_stats(vhost.counters):
        view["message_stats"] = stats
    return view


def exchange(exchange: Exchange) -> View:
    view: View = {
        "name": text(exchange.name),
        "vhost": text(exchange.vhost),
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": table(exchange.arguments),
        "user_who_performed_action": "rmq-internal",
    }
    if exchange.policy is not None:
        view["policy"] = text(exchange.policy.name)
    if stats := exchange_stats(exchange.counters):
        view["message_stats"] = stats
    if exchange.deduplication is not None:
        view["deduplication"] = _deduplication(exchange.deduplication)
    if exchange.schema is not None:
        view["schema"] = {"action": exchange.schema.action, "violations": exchange.violations}
    return view


def binding(vhost: Vhost, binding: Binding) -> View:
    return {
        "source": text(binding.source),
        "vhost": text(vhost.name),
        "destination": text(binding.destination.name),
        "destination_type": binding.destination_type,
        "routing_key": text(binding.routing_key),
        "arguments": table(binding.arguments),
        "properties_key": binding.properties_key,
    }


def default_binding(queue: Queue) -> View:
    """The binding to the default exchange. parity: shown for every queue."""
    name = text(queue.name)
    return {
        "source": "",
        "vhost": text(queue.vhost.name),
        "destination": name,
        "destination_type": "queue",
        "routing_key": name,
        "arguments": {},
        "properties_key": properties_key_of(queue.name),
    }


# Queues and consumers


def queue(queue: Queue) -> View:
    """A queue for lists."""
    own = queue_own(queue)
    policy, operator_policy = queue.policy, queue.operator_policy
    capacity = queue_metrics.consumer_capacity(queue)
    view: View = {
        "name": own["name"],
        "vhost": text(queue.vhost.name),
        "type": queue.settings.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": table(queue.arguments) if queue.arguments else {},
        "node": node_name(queue.vhost.broker.settings),
        "state": "paused" if queue.is_paused else "running",
        "policy": None if policy is None else text(policy.name),
        "operator_policy": None if operator_policy is None else text(operator_policy.name),
        "effective_policy_definition": dict(masked_definition(effective_definition(queue))),
        "consumers": queue_metrics.consumers(queue),
        "consumer_utilisation": capacity,
        "consumer_capacity": capacity,
        "exclusive_consumer_tag": None,
        "single_active_consumer_tag": None,
        "messages": queue_metrics.messages(queue),
        "messages_ready": queue_metrics.messages_ready(queue),
        "messages_unacknowledged": queue_metrics.messages_unacknowledged(queue),
        "messages_ram": queue_metrics.messages_ram(queue),
        "messages_ready_ram": queue_metrics.messages_ready_ram(queue),
        "messages_unacknowledged_ram": queue_metrics.messages_unacknowledged_ram(queue),
        "messages_paged_out": queue_metrics.messages_paged_out(queue),
        "messages_persistent": queue_metrics.messages_persistent(queue),
        "message_bytes": queue_metrics.message_bytes(queue),
        "message_bytes_ready": queue_metrics.message_bytes_ready(queue),
        "message_bytes_unacknowledged": queue_metrics.message_bytes_unacknowledged(queue),
        "message_bytes_ram": queue_metrics.message_bytes_ram(queue),
        "message_bytes_paged_out": queue_metrics.message_bytes_paged_out(queue),
        "message_bytes_persistent": queue_metrics.message_bytes_persistent(queue),
        "head_message_timestamp": queue_metrics.head_message_timestamp(queue),
        "memory": queue_metrics.memory(queue),
        "garbage_collection": GARBAGE,
        "recoverable_slaves": None,
    }
    if delayed := queue_metrics.messages_delayed(queue):
        # Only if not 0: RabbitMQ's management UI shows a badge for any queue with this field.
        view["messages_delayed"] = delayed
    if queue.settings.queue_type == "quorum":
        # parity: one replica.
        view |= {"leader": view["node"], "members": [view["node"]], "online": [view["node"]]}
        view["messages_dlx"] = queue_metrics.messages_dlx(queue)
        view["message_bytes_dlx"] = queue_metrics.message_bytes_dlx(queue)
    if queue.consumers.exclusive is not None:
        view["exclusive_consumer_tag"] = text(queue.consumers.exclusive.tag)
    if queue.consumers.active is not None:
        view["single_active_consumer_tag"] = text(queue.consumers.active.tag)
    if queue.owner is not None:
        view["owner_pid_details"] = queue.owner.details()
    view |= own
    return view


def queue_own(queue: Queue) -> View:
    """The fields that differ among queues with the same `queue_at_rest`."""
    counters = queue.counters
    view: View = {"name": text(queue.name)}
    if queue.vhost.broker.clock.now_ms() - counters.active_at_ms >= IDLE_MS:
        view["idle_since"] = instant(counters.active_at_ms)
    if stats := queue_stats(counters):
        view["message_stats"] = stats
    return view


def queue_at_rest(queue: Queue) -> tuple[object, ...] | None:
    """A key of all that the other fields of a queue's view depend on; None unless the queue is empty and unused.

    A field of `queue` that differs among such queues must be in here or in `queue_own`.
    """
    if not queue.is_idle or queue.consumers.all:
        return None
    if queue.owner is not None or queue.retries is not None:
        return None
    return (
        queue.vhost,
        queue.settings.queue_type,
        queue.durable,
        queue.auto_delete,
        # As text, because 1, 1.0 and true are equal as keys.
        repr(queue.arguments) if queue.arguments else "",
        queue.is_paused,
        queue.policy,
        queue.operator_policy,
    )


def queue_details(queue: Queue) -> View:
    """Additional fields of a single queue's view."""
    view: View = {"consumer_details": consumers_of(queue)}
    if queue.deduplication is not None:
        view["deduplication"] = _deduplication(queue.deduplication)
    if queue.settings.schema is not None:
        view["schema"] = {"action": queue.settings.schema.action, "violations": queue.violations}
    return view


def _deduplication(deduplication: Deduplication) -> View:
    return {"keys": len(deduplication), "dropped": deduplication.dropped}


def priorities(queue: Queue) -> list[View]:
    """The levels of a queue that were ever used, highest first, with their contents and counts."""
    *others, bottom = [level for _, level in queue.ready.numbered()]
    rows = [(level.count, level.unacked, level.enqueued, level.dequeued) for level in others]
    # The counts of the bottom level are the queue's counts minus those of the other levels.
    rest = [queue.ready.count, queue.unacked_count, queue.counters.publish, queue.counters.deliver_get]
    for row in rows:
        rest = [total - part for total, part in zip(rest, row, strict=True)]
    found = [_priority(queue, level.number, row, level.served_at_ms) for level, row in zip(others, rows, strict=True)]
    found.append(_priority(queue, 0, rest, bottom.served_at_ms if others else queue.served_at_ms))
    return found


def _priority(queue: Queue, number: int, counts: Sequence[int], served_at_ms: int) -> View:
    ready, in_flight, enqueued, dequeued = counts
    return {
        "priority": number,
        "weight": None if queue.settings.weights is None else queue.settings.weights[number],
        "ready": ready,
        "in_flight": in_flight,
        "enqueued": enqueued,
        "dequeued": dequeued,
        "last_served": instant(served_at_ms) if served_at_ms else None,
    }


def consumers_of(queue: Queue) -> list[View]:
    return [consumer.view() for consumer in queue.consumers.all]


def unacked_of(queue: Queue) -> Iterator[list[View]]:
    """The unacked messages of a queue, channel by channel. Callers may pause between two channels."""
    left = queue.unacked_count
    if queue.leases is not None:
        leased = queue.leases.view()
        yield leased
        left -= len(leased)
    for client in clients_of(queue.vhost):
        for channel in client.open_channels():
            held = channel.held_of(queue)
            yield held
            left -= len(held)
            if left <= 0:
                return


def clients_of(vhost: Vhost) -> list[Client]:
    """The open connections to a vhost."""
    return [client for client in vhost.broker.connections if client.vhost is vhost]

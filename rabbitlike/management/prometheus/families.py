"""Metrics of the whole broker, as families of prometheus-client."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import prometheus_client
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)

from rabbitlike import __version__
from rabbitlike.broker.alarms import DISK, MEMORY
from rabbitlike.broker.budget import TURNS_MS
from rabbitlike.broker.queues.dead_letters.x_death import DeadLetterOutcome
from rabbitlike.broker.statistics.counters import SIZES
from rabbitlike.management.node.node import ERLANG, PROCESSES
from rabbitlike.management.prometheus.groups import IN, OUT
from rabbitlike.management.statistics.kinds import NODE_COUNTS, NODE_LENGTHS

if TYPE_CHECKING:
    from rabbitlike.broker.statistics.commits import Histogram
    from rabbitlike.management.context import Context

AMQP: Final = "amqp091"
#: All queues have one implementation here, whatever type they were declared with.
QUEUE_TYPE: Final = "rabbit_classic_queue"
QUORUM: Final = "rabbit_quorum_queue"

_CHURN: Final = {
    "connections_opened": ("connections_created", "Total number of connections opened"),
    "connections_closed": ("connections_closed", "Total number of connections closed or terminated"),
    "channels_opened": ("channels_created", "Total number of channels opened"),
    "channels_closed": ("channels_closed", "Total number of channels closed"),
    "queues_declared": ("queues_declared", "Total number of queues declared"),
    "queues_created": ("queues_created", "Total number of queues created"),
    "queues_deleted": ("queues_deleted", "Total number of queues deleted"),
}
_NODE: Final = {
    "mem_used": ("process_resident_memory_bytes", "Memory used in bytes"),
    "fd_used": ("process_open_fds", "Open file descriptors"),
    "sockets_used": ("process_open_tcp_sockets", "Open TCP sockets"),
    "proc_used": ("erlang_processes_used", "Erlang processes used"),
    "disk_free": ("disk_space_available_bytes", "Disk space available in bytes"),
    "gc_num": ("erlang_gc_runs", "Total number of Erlang garbage collector runs"),
    "context_switches": ("erlang_scheduler_context_switches", "Total number of scheduler context switches"),
    "io_read_count": ("io_read_ops", "Total number of I/O read operations"),
    "io_read_bytes": ("io_read_bytes", "Total number of I/O bytes read"),
    "io_write_count": ("io_write_ops", "Total number of I/O write operations"),
    "io_write_bytes": ("io_write_bytes", "Total number of I/O bytes written"),
    "io_sync_count": ("io_sync_ops", "Total number of I/O sync operations"),
    "mnesia_disk_tx_count": ("schema_db_disk_tx", "Total number of Schema DB disk transactions"),
    "msg_store_read_count": ("msg_store_read", "Total number of Message Store read operations"),
    "msg_store_write_count": ("msg_store_write", "Total number of Message Store write operations"),
    "gc_bytes_reclaimed": ("erlang_gc_reclaimed_bytes", "Total number of bytes reclaimed by garbage collection"),
    "io_seek_count": ("io_seek_ops", "Total number of I/O seek operations"),
    "io_reopen_count": ("io_reopen_ops", "Total number of times files have been reopened"),
    "mnesia_ram_tx_count": ("schema_db_ram_tx", "Total number of Schema DB memory transactions"),
    "queue_index_read_count": ("queue_index_read_ops", "Total number of Queue Index read operations"),
    "queue_index_write_count": ("queue_index_write_ops", "Total number of Queue Index write operations"),
}
_GLOBAL: Final = {
    "received": ("publish", "Total number of messages received from publishers"),
    "received_confirm": ("confirm", "Total number of messages received from publishers expecting confirmations"),
    "confirmed": ("confirm", "Total number of messages confirmed to publishers"),
    "unroutable_dropped": (
        "drop_unroutable",
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
    ),
    "unroutable_returned": (
        "return_unroutable",
        "Total number of messages published as mandatory into an exchange and returned to the publisher as unroutable",
    ),
}
_GLOBAL_OUT: Final = {
    "delivered_consume_manual_ack": (
        "deliver",
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
    ),
    "delivered_consume_auto_ack": (
        "deliver_no_ack",
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
    ),
    "delivered_get_manual_ack": (
        "get",
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
    ),
    "delivered_get_auto_ack": (
        "get_no_ack",
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
    ),
    "get_empty": ("get_empty", "Total number of times basic.get operations fetched no message"),
    "redelivered": ("redeliver", "Total number of messages redelivered to consumers"),
    "acknowledged": ("ack", "Total number of messages acknowledged by consumers"),
}


def identity(here: Context, endpoint: str) -> Iterator[Metric]:
    """parity: dashboards join every metric with these two, which never have the prefix of the detailed endpoint."""
    settings = here.settings
    build = UnknownMetricFamily("rabbitmq_build_info", "RabbitMQ & Erlang/OTP version info")
    build.add_sample(
        "rabbitmq_build_info",
        {
            "rabbitmq_version": settings.version,
            "prometheus_plugin_version": settings.version,
            "prometheus_client_version": getattr(prometheus_client, "__version__", ""),
            "erlang_version": ERLANG,
            "product_name": settings.product,
            "product_version": settings.version,
            "rabbitlike_version": __version__,
        },
        1,
    )
    yield build
    who = UnknownMetricFamily("rabbitmq_identity_info", "RabbitMQ node & cluster identity info")
    permanent = here.broker.parameters.globals.get("internal_cluster_id")
    who.add_sample(
        "rabbitmq_identity_info",
        {
            "rabbitmq_node": here.node,
            "rabbitmq_cluster": here.cluster_name,
            "rabbitmq_cluster_permanent_id": str(permanent or ""),
            "rabbitmq_endpoint": endpoint,
        },
        1,
    )
    yield who


def node(here: Context) -> Iterator[Metric]:
    """The process, its limits and alarms."""
    measured = dict(zip((*NODE_LENGTHS, *NODE_COUNTS), here.node_stats.measure(), strict=True))
    for source, (name, said) in _NODE.items():
        family = GaugeMetricFamily if source in NODE_LENGTHS else CounterMetricFamily
        yield family(f"rabbitmq_{name}", said, measured[source])
    yield CounterMetricFamily(
        "rabbitmq_io_sync_time_seconds", "Total I/O sync time", measured["io_sync_time_us"] / 1_000_000
    )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = {
        "process_max_fds": ("Open file descriptors limit", files),
        "process_max_tcp_sockets": ("Open TCP sockets limit", files),
        "resident_memory_limit_bytes": ("Memory high watermark in bytes", here.node_stats.memory_limit),
        "disk_space_available_limit_bytes": ("Free disk space low watermark in bytes", here.settings.disk_free_limit),
        "erlang_processes_limit": ("Erlang processes limit", PROCESSES),
        "erlang_scheduler_run_queue": ("Erlang scheduler run queue", 0),
        "erlang_net_ticktime_seconds": ("Inter-node heartbeat interval", 60),
        "erlang_uptime_seconds": ("Node uptime", (here.broker.clock.now_ms() - here.started_at_ms) / 1000),
    }
    for name, (said, value) in limits.items():
        yield GaugeMetricFamily(f"rabbitmq_{name}", said, value)
    yield GaugeMetricFamily(
        "process_start_time_seconds", "Start time of the process since unix epoch in seconds", here.started_at_ms / 1000
    )
    active = here.broker.alarms.active
    alarms = {
        "free_disk_space_watermark": ("is 1 if free disk space watermark alarm is in effect", DISK in active),
        "memory_used_watermark": ("is 1 if VM memory watermark alarm is in effect", MEMORY in active),
        "file_descriptor_limit": ("is 1 if file descriptor limit alarm is in effect", False),
    }
    for name, (said, is_raised) in alarms.items():
        yield UnknownMetricFamily(f"rabbitmq_alarms_{name}", said, int(is_raised))
    for name, (source, said) in _CHURN.items():
        yield CounterMetricFamily(f"rabbitmq_{name}", said, getattr(here.broker.churn, source))


def totals(connections: int, channels: int, consumers: int, queues: int) -> Iterator[Metric]:
    found = {
        "connections": ("Connections currently open", connections),
        "channels": ("Channels currently open", channels),
        "consumers": ("Consumers currently connected", consumers),
        "queues": ("Queues available", queues),
    }
    for name, (said, value) in found.items():
        yield GaugeMetricFamily(f"rabbitmq_{name}", said, value)


def global_counters(here: Context, publishers: int, consumers: int) -> Iterator[Metric]:
    """Totals of all channels since the start, closed ones included, so that they only grow."""
    counts = dict.fromkeys((*IN, *OUT), 0)
    for vhost in here.broker.vhosts.values():
        for name in counts:
            counts[name] += getattr(vhost.counters, name)
    for name, (source, said) in _GLOBAL.items():
        yield _labelled(f"messages_{name}", said, counts[source], {"protocol": AMQP})
    routed = counts["publish"] - counts["drop_unroutable"] - counts["return_unroutable"]
    yield _labelled("messages_routed", "Total number of messages routed to queues", routed, {"protocol": AMQP})
    by_type = {"protocol": AMQP, "queue_type": QUEUE_TYPE}
    for name, (source, said) in _GLOBAL_OUT.items():
        yield _labelled(f"messages_{name}", said, counts[source], by_type)
    delivered = sum(counts[name] for name in ("deliver", "deliver_no_ack", "get", "get_no_ack"))
    yield _labelled("messages_delivered", "Total number of messages delivered to consumers", delivered, by_type)
    for name, said, value in (
        ("publishers", "Current number of publishers", publishers),
        ("consumers", "Current number of consumers", consumers),
    ):
        family = GaugeMetricFamily(f"rabbitmq_global_{name}", said, labels=("protocol",))
        family.add_metric((AMQP,), value)
        yield family


def message_sizes(here: Context) -> Metric:
    family = HistogramMetricFamily(
        "rabbitmq_message_size_bytes", "Size of messages received from publishers", labels=("protocol",)
    )
    sizes = here.broker.sizes
    family.add_metric((AMQP,), _cumulated(SIZES, sizes.buckets()), sizes.total)
    return family


def logins(here: Context) -> Iterator[Metric]:
    found = [
        CounterMetricFamily(f"rabbitmq_auth_attempts{name}", f"Total number of {said}", labels=("protocol",))
        for name, said in (
            ("", "authentication attempts"),
            ("_succeeded", "successful authentication attempts"),
            ("_failed", "failed authentication attempts"),
        )
    ]
    for each in here.broker.login_attempts.totals():
        for family, count in zip(found, (each.succeeded + each.failed, each.succeeded, each.failed), strict=True):
            family.add_metric((each.protocol,), count)
    yield from found


def dead_letters(here: Context) -> Iterator[Metric]:
    for reason, counts in here.broker.deaths.items():
        family = CounterMetricFamily(
            f"rabbitmq_global_messages_dead_lettered_{reason.value}",
            f"Total number of messages dead-lettered due to {reason.value.replace('_', ' ')}",
            labels=("queue_type", "dead_letter_strategy"),
        )
        family.add_metric((QUEUE_TYPE, "disabled"), counts[DeadLetterOutcome.DROPPED])
        family.add_metric((QUEUE_TYPE, "at_most_once"), counts[DeadLetterOutcome.AT_MOST_ONCE])
        family.add_metric((QUORUM, "at_least_once"), counts[DeadLetterOutcome.AT_LEAST_ONCE])
        yield family
    yield _labelled(
        "messages_dead_lettered_confirmed",
        "Total number of messages dead-lettered and confirmed by target queues",
        here.broker.dead_letters_confirmed,
        {"queue_type": QUORUM, "dead_letter_strategy": "at_least_once"},
    )


def _labelled(name: str, said: str, value: int, labels: dict[str, str]) -> Metric:
    family = CounterMetricFamily(f"rabbitmq_global_{name}", said, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


def ours(here: Context) -> Iterator[Metric]:
    """Metrics that RabbitMQ does not have."""
    yield histogram("rabbitlike_commit_seconds", "Time that commits to disk took", here.broker.commits.latency_s)
    yield histogram("rabbitlike_commit_messages", "Messages that one commit stored", here.broker.commits.messages)
    yield histogram(
        "rabbitlike_event_loop_lag_seconds",
        "How late timers fire, that is, how long clients wait for the event loop",
        here.lag.late_s,
    )
    turn = here.broker.turn
    yield HistogramMetricFamily(
        "rabbitlike_turn_seconds",
        "Time that turns took: what one read or one timer set in motion",
        _cumulated((ms / 1000 for ms in TURNS_MS), turn.counts),
        turn.total_ns / 1e9,
    )
    longest_ns, turn.longest_ns = turn.longest_ns, 0
    yield GaugeMetricFamily(
        "rabbitlike_turn_longest_seconds", "The longest turn since this was read last", longest_ns / 1e9
    )
    yield GaugeMetricFamily(
        "rabbitlike_history_objects", "Objects that a history of rates is kept of", here.rates.track_count
    )
    yield GaugeMetricFamily(
        "rabbitlike_messages_delayed",
        "Messages that wait for the time they were published for, in no queue yet",
        sum(vhost.delays.pending for vhost in here.broker.vhosts.values()),
    )
    yield GaugeMetricFamily("rabbitlike_process_id", "Process id", os.getpid())


def histogram(name: str, said: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(name, said, _cumulated(map(float, values.bounds), values.counts), values.total)


def _cumulated(bounds: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Cumulative counts per bound, and the total."""
    return list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))

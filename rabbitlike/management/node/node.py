"""The node: resource usage of the process, in RabbitMQ's fields.

Where RabbitMQ counts something that does not exist here (Erlang processes, its message store), the nearest equivalent
is counted; fields without one are 0. All readings are cheap, because they are sampled every few seconds.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rabbitlike import __version__
from rabbitlike.broker.alarms import DISK, MEMORY, free_bytes, memory_limit, resident_bytes, total_bytes
from rabbitlike.management.exchange_types import exchange_types
from rabbitlike.management.node.listeners import context_views
from rabbitlike.management.statistics.kinds import CHURN, CHURNED, NODE, NODE_COUNTS, NODE_LENGTHS

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.config import Settings
    from rabbitlike.management.context import Context
    from rabbitlike.management.statistics.ages import Ages
    from rabbitlike.management.statistics.details import View
    from rabbitlike.management.statistics.history import Values

#: parity: there is no Erlang here. Tools parse the version, so it is that of a release that fits RabbitMQ's version.
ERLANG: Final = "26.2.5"
#: parity: the Erlang VM's default limit of processes; monitoring tools divide by it.
PROCESSES: Final = 1_048_576

_IO: Final = {"syscr": "io_read_count", "rchar": "io_read_bytes", "syscw": "io_write_count", "wchar": "io_write_bytes"}
_GC_QUEUES: Final = (
    "connection_closed",
    "channel_closed",
    "consumer_deleted",
    "exchange_deleted",
    "queue_deleted",
    "vhost_deleted",
    "node_node_deleted",
    "channel_consumer_deleted",
)


class Node:
    """Reads the process. `measure` returns the numbers of `kinds.NODE`."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self._settings = settings
        self.memory_limit = memory_limit(settings.memory_high_watermark, total_bytes())

    def measure(self) -> Values:
        commits = self._broker.commits
        broker = self._broker
        usage = resource.getrusage(resource.RUSAGE_SELF)
        disk = _io()
        found = {
            "mem_used": resident_bytes(),
            "fd_used": open_files(),
            "sockets_used": len(broker.connections),
            "proc_used": self.processes(),
            "disk_free": free_bytes(self.folder),
            "gc_num": sum(each["collections"] for each in gc.get_stats()),
            "context_switches": usage.ru_nvcsw + usage.ru_nivcsw,
            **{ours: disk.get(theirs, 0) for theirs, ours in _IO.items()},
            "io_sync_count": commits.latency_s.count,
            "io_sync_time_us": int(commits.latency_s.total * 1_000_000),
            "mnesia_disk_tx_count": commits.records,
            "msg_store_write_count": int(commits.messages.total),
        }
        # Numbers that do not exist here are always 0; monitoring tools read them.
        return tuple(found.get(name, 0) for name in (*NODE_LENGTHS, *NODE_COUNTS))

    @property
    def folder(self) -> Path:
        """The folder whose disk is checked."""
        return Path() if self._settings.memory or not self._settings.data_dir.exists() else self._settings.data_dir

    def processes(self) -> int:
        """parity: one process per connection, channel and queue, as in RabbitMQ, plus our threads."""
        churn = self._broker.churn
        channels = churn.channels_created - churn.channels_closed
        queues = sum(len(vhost.queues) for vhost in self._broker.vhosts.values())
        return len(self._broker.connections) + channels + queues + threading.active_count()


def open_files() -> int:
    try:
        # Linux 6.2 and later report the number here, without a walk through all of them.
        if size := os.stat("/proc/self/fd").st_size:
            return size
    except OSError:
        pass
    # The lowest free descriptor: all below it are in use.
    probe = os.dup(0) if _is_open(0) else 3
    if probe != 3:
        os.close(probe)
    return probe


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _io() -> dict[str, int]:
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return {name: int(value) for name, _, value in (line.partition(":") for line in file)}
    except (OSError, ValueError):
        return {}


def node_view(here: Context, ages: Ages) -> View:
    """The view of /api/nodes/{name}."""
    settings, broker, node = here.settings, here.broker, here.node_stats
    measured = dict(zip((*NODE_LENGTHS, *NODE_COUNTS), node.measure(), strict=True))
    syncs, sync_us = measured["io_sync_count"], measured.pop("io_sync_time_us")
    folder = str(node.folder)
    view: View = {
        "partitions": [],
        "os_pid": str(os.getpid()),
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "sockets_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "mem_limit": node.memory_limit,
        "mem_alarm": MEMORY in broker.alarms.active,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": settings.disk_free_limit,
        "disk_free_alarm": DISK in broker.alarms.active,
        "proc_total": PROCESSES,
        "rates_mode": "detailed",
        "uptime": broker.clock.now_ms() - here.started_at_ms,
        "run_queue": 0,
        "processors": os.cpu_count() or 1,
        "exchange_types": exchange_types(),
        "auth_mechanisms": AUTH_MECHANISMS,
        "applications": applications(settings),
        "contexts": context_views(here),
        "log_files": ["<stderr>"],
        "db_dir": folder,
        "config_files": [] if settings.config is None else [str(settings.config)],
        "net_ticktime": 60,
        "enabled_plugins": PLUGINS,
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        "name": here.node,
        "running": True,
        "type": "disc",
        "being_drained": False,
        "cluster_links": [],
        "metrics_gc_queue_length": dict.fromkeys(_GC_QUEUES, 0),
        **measured,
        **{name: getattr(broker.churn, ours) for name, ours in CHURNED.items()},
    }
    here.rates.annotate(NODE, NODE, view, ages)
    here.rates.reading(CHURN, (CHURN,)).annotate(view, list(CHURNED), ages.node_stats)
    for kind in ("read", "write", "seek", "sync"):
        # parity: the mean of the last interval; only commits are timed.
        view[f"io_{kind}_avg_time"] = 0.0
        view[f"io_{kind}_avg_time_details"] = _still(view[f"io_{kind}_count_details"])
    view["io_sync_avg_time"] = sync_us / syncs / 1000 if syncs else 0.0
    return view


def _still(like: object) -> View:
    """Details like those given, for a number that is always 0."""
    samples = like.get("samples") if isinstance(like, dict) else None
    if samples is None:
        return {"rate": 0.0}
    zeros = [{"sample": 0.0, "timestamp": each["timestamp"]} for each in samples]
    return {"rate": 0.0, "samples": zeros, "avg_rate": 0.0, "avg": 0.0}


def memory_view() -> View:
    """parity: RabbitMQ reports the memory of each part of its VM; here all is one process, as the system reports it."""
    used = resident_bytes()
    parts: View = dict.fromkeys(_MEMORY_PARTS, 0)
    parts["other_proc"] = used
    parts["strategy"] = "rss"
    parts["total"] = {"erlang": used, "rss": used, "allocated": used}
    return parts


def relative_memory_view() -> View:
    parts: View = {"total": 100, **dict.fromkeys(_MEMORY_PARTS, 0)}
    parts["other_proc"] = 100
    return parts


_MEMORY_PARTS: Final = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)

AUTH_MECHANISMS: Final = [
    {"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": True},
    {"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": True},
    {"name": "EXTERNAL", "description": "SASL EXTERNAL mechanism: a client's certificate", "enabled": True},
]

#: RabbitMQ plugins whose features are built in.
PLUGINS: Final = [
    "rabbitmq_management",
    "rabbitmq_prometheus",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
]


def applications(settings: Settings) -> list[View]:
    return [
        {"name": "rabbit", "description": "RabbitMQ", "version": settings.version},
        {"name": "rabbitmq_management", "description": "RabbitMQ Management Console", "version": settings.version},
        {"name": "rabbitmq_prometheus", "description": "Prometheus metrics", "version": settings.version},
        {"name": "rabbitlike", "description": "AMQP 0-9-1 broker", "version": __version__},
        {"name": "python", "description": platform.python_implementation(), "version": platform.python_version()},
    ]

"""What monitoring tools and autoscalers read, by the requests they send: a field they miss is an alarm at night."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyrabbit2
import pytest
from kombu.connection import Connection

from interop.management import topology
from interop.management.doors import Doors
from interop.management.questions import path_of
from interop.management.topology import Topology
from interop.patience import eventually

Unique = Callable[[str], str]
NUMBER = (int, float)
RATED = ("ack", "confirm", "deliver", "deliver_get", "publish", "redeliver", "return_unroutable", "drop_unroutable")


def whole(names: str, prefix: str = "") -> dict[str, Any]:
    """Fields that are whole numbers."""
    return {f"{prefix}{name}": int for name in names.split()}


#: tool, path, {dotted field: types}
READ: list[tuple[str, str, dict[str, Any]]] = [
    (
        "datadog",
        "/overview",
        {f"object_totals.{name}": int for name in ("connections", "channels", "queues", "consumers", "exchanges")}
        | {f"queue_totals.{name}": int for name in ("messages", "messages_ready", "messages_unacknowledged")}
        | {
            f"queue_totals.{name}_details.rate": NUMBER
            for name in ("messages", "messages_ready", "messages_unacknowledged")
        }
        | {f"message_stats.{name}": int for name in RATED}
        | {f"message_stats.{name}_details.rate": NUMBER for name in RATED}
        | {"cluster_name": str, "rabbitmq_version": str, "management_version": str, "node": str},
    ),
    (
        "datadog",
        "/nodes",
        {"[].name": str, "[].running": bool, "[].partitions": list, "[].mem_alarm": bool, "[].disk_free_alarm": bool}
        | {
            f"[].{name}": int
            for name in ("fd_used", "disk_free", "mem_used", "mem_limit", "run_queue", "sockets_used", "proc_used")
        },
    ),
    (
        "telegraf",
        "/nodes/{node}",
        whole("disk_free disk_free_limit fd_total fd_used mem_limit mem_used proc_total proc_used run_queue uptime")
        | whole("sockets_total sockets_used gc_num gc_bytes_reclaimed mnesia_disk_tx_count mnesia_ram_tx_count")
        | whole("io_read_count io_read_bytes io_write_count io_write_bytes")
        | {f"{name}_details.rate": NUMBER for name in ("gc_num", "gc_bytes_reclaimed", "io_read_avg_time")}
        | {"io_read_avg_time": NUMBER, "io_write_avg_time": NUMBER, "running": bool},
    ),
    (
        "telegraf",
        "/nodes/{node}/memory",
        {f"memory.{name}": int for name in ("connection_readers", "queue_procs", "binary", "other_proc")},
    ),
    (
        "telegraf",
        "/queues/parity/filled",
        {"name": str, "vhost": str, "node": str, "durable": bool, "auto_delete": bool, "idle_since": str}
        | whole("consumers memory messages messages_ready messages_unacknowledged message_bytes message_bytes_ready")
        | whole("message_bytes_unacknowledged message_bytes_ram message_bytes_persistent")
        | whole("ack deliver deliver_get publish redeliver", "message_stats.")
        | {f"message_stats.{name}_details.rate": NUMBER for name in ("ack", "deliver_get", "publish")},
    ),
    ("telegraf", "/exchanges/parity/a-direct", {"message_stats.publish_in": int, "message_stats.publish_out": int}),
    ("zabbix", "/connections", {"[].state": str, "[].vhost": str, "[].recv_oct": int, "[].channels": int}),
    ("zabbix", "/channels", {"[].consumer_count": int, "[].prefetch_count": int, "[].messages_unacknowledged": int}),
    ("zabbix", "/overview", {"listeners": list, "contexts": list, "churn_rates.connection_created": int}),
    ("nagios", "/aliveness-test/parity", {"status": str}),
    ("nagios", "/health/checks/alarms", {"status": str}),
    ("nagios", "/health/checks/local-alarms", {"status": str}),
    ("nagios", "/health/checks/virtual-hosts", {"status": str}),
    ("netdata", "/vhosts", {"[].name": str}),
    (
        "nservicebus",
        "/consumers/parity",
        {"[].queue.name": str, "[].consumer_tag": str, "[].channel_details.name": str, "[].prefetch_count": int},
    ),
    ("masstransit", "/bindings/parity/e/a-direct/q/plain", {"[].source": str, "[].properties_key": str}),
]


@pytest.fixture(scope="module")
def held(doors: Doors) -> Iterator[Topology]:
    held = topology.declare(doors)
    yield held
    held.close()


def _read(answer: Any, field: str) -> Any:
    for part in field.split("."):
        answer = answer[0] if part == "[]" else answer[part]
    return answer


@pytest.mark.parametrize(("tool", "path", "fields"), READ, ids=[f"{tool} {path}" for tool, path, _ in READ])
def test_fields_that_monitors_read(
    doors: Doors, held: Topology, tool: str, path: str, fields: dict[str, type | tuple[type, ...]]
) -> None:
    answer = doors.get(path_of(path, held.names))
    for field, types in fields.items():
        value = _read(answer, field)
        assert isinstance(value, types), f"{tool} reads {field} of {path}: {value!r}"
        assert not isinstance(value, bool) or types is bool, f"{tool} reads {field} of {path}: {value!r}"


def test_keda_scales_by_one_queue(doors: Doors, held: Topology) -> None:
    queue: Any = doors.get("/queues/parity/unacked")
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (10, 7, 3)
    assert queue["message_stats"]["publish_details"]["rate"] >= 0
    assert queue["message_stats"]["deliver_get_details"]["rate"] >= 0


def test_keda_scales_by_a_pattern(doors: Doors, held: Topology) -> None:
    path = "/queues/parity?page=1&use_regex=true&pagination=false&name=%5E%28unacked%7Cfilled%29%24&page_size=100"
    answer: Any = doors.get(path)
    assert answer["page_count"] == 1
    assert {queue["name"]: queue["messages"] for queue in answer["items"]} == {"unacked": 10, "filled": 2}
    across: Any = doors.get(path.replace("/parity", ""))
    assert {queue["vhost"] for queue in across["items"]} == {"parity"}


def test_kombu_finds_its_manager(doors: Doors, unique: Unique, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyrabbit", pyrabbit2)  # the name kombu imports; its heir is the one maintained
    monkeypatch.setenv("NO_PROXY", doors.host)
    with Connection(f"amqp://guest:guest@{doors.host}:{doors.amqp_port}//") as connection:
        name = unique("managed")
        with connection.SimpleQueue(name) as queue:
            queue.put("hello")
            manager = connection.get_manager(port=doors.http_port)
            assert manager.is_alive()
            eventually(lambda: manager.get_queue("/", name).get("messages") == 1, "the message is counted")
            assert name in [listed["name"] for listed in manager.get_queues("/")]
            queue.clear()

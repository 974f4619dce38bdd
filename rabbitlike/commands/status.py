"""`status`, `health` and `whoami`: the state of the broker, and the current user."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from rabbitlike.commands.api import Api, View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import REFUSED, Refused
from rabbitlike.commands.output import columns, duration, rate, size, value_at

#: Checks without parameters; the overview lists the listeners to check. A broker may lack some checks.
CHECKS: Final = (
    ("ready-to-serve-clients",),
    ("is-in-service",),
    ("alarms",),
    ("local-alarms",),
    ("virtual-hosts",),
    ("below-node-connection-limit",),
    ("node-is-quorum-critical",),
    ("metadata-store", "initialized"),
)
OK, FAILED, UNKNOWN = "ok", "failed", "not offered"


def status(call: Call) -> None:
    """Show version, totals and rates of the broker on one page."""
    overview = call.api.get("overview")
    nodes = _nodes(call.api)
    if call.output.as_json:
        call.output.json({"overview": overview, "nodes": nodes})
        return
    for title, view in _pages(call, overview, nodes):
        call.output.record(view, title=title)


def _nodes(api: Api) -> list[View]:
    """Return the nodes, or none if the user may not see them: the rest is still useful."""
    try:
        return api.get_list("nodes")
    except Refused:
        return []


def _pages(call: Call, overview: View, nodes: list[View]) -> Iterator[tuple[str, View]]:
    product = overview.get("product_name", "RabbitMQ")
    version = overview.get("product_version") or overview.get("rabbitmq_version")
    yield (
        "Broker",
        {
            "product": f"{product} {version}",
            "address": call.api.address.url,
            "cluster": overview.get("cluster_name"),
            "node": overview.get("node"),
            "listeners": [_listener(each) for each in overview.get("listeners", ())],
        },
    )
    for node in nodes:
        yield f"Node {node['name']}", _node(node)
    totals = overview.get("object_totals") or {}
    yield "Holds", {name: totals.get(name, 0) for name in KINDS}
    queued = overview.get("queue_totals") or {}
    yield (
        "Messages",
        {
            "ready": queued.get("messages_ready", 0),
            "unacked": queued.get("messages_unacknowledged", 0),
            "total": queued.get("messages", 0),
            **{title: rate(number(overview, f"message_stats.{name}_details.rate")) for title, name in RATES.items()},
        },
    )


KINDS: Final = ("queues", "exchanges", "connections", "channels", "consumers")
#: Names of rates, and their counters.
RATES: Final = {
    "published": "publish",
    "confirmed": "confirm",
    "delivered": "deliver_get",
    "acked": "ack",
    "redelivered": "redeliver",
    "unroutable": "return_unroutable",
}


def number(view: View, path: str) -> float:
    """Return the number at a path, or 0."""
    value = value_at(view, path)
    return value if isinstance(value, int | float) else 0


def _listener(view: View) -> str:
    return f"{view.get('protocol', '')}://{view.get('ip_address', '')}:{view.get('port', '')}"


def _node(node: View) -> View:
    alarms = [name for name in ("mem_alarm", "disk_free_alarm") if node.get(name)]
    return {
        "running": node.get("running", False),
        "up for": duration(number(node, "uptime") / 1000),
        "memory": _of(size(number(node, "mem_used")), size(number(node, "mem_limit"))),
        "disk free": f"{size(number(node, 'disk_free'))}, limit {size(number(node, 'disk_free_limit'))}",
        "files open": _of(node.get("fd_used", 0), node.get("fd_total", 0)),
        "alarms": ", ".join(_ALARMS[name] for name in alarms) or "none",
    }


_ALARMS: Final = {"mem_alarm": "low on memory", "disk_free_alarm": "low on disk"}


def _of(used: object, limit: object) -> str:
    return f"{used} of {limit}"


def health(
    call: Call,
    certificate_days: Annotated[
        int | None,
        typer.Option("--certificate-days", help="Also fail if a certificate expires within this many days.", min=1),
    ] = None,
) -> int:
    """Run all health checks; exits with 1 if one fails."""
    checks = list(CHECKS)
    checks += _listener_checks(call.api.get("overview"))
    if certificate_days is not None:
        checks.append(("certificate-expiration", str(certificate_days), "days"))
    rows = [_check(call.api, names) for names in checks]
    if call.output.as_json:
        call.output.json(rows)
    else:
        call.output.table(rows, columns("check status reason"), empty="no checks")
    return REFUSED if any(row["status"] == FAILED for row in rows) else 0


def _listener_checks(overview: View) -> list[tuple[str, ...]]:
    listeners = overview.get("listeners", ())
    ports = sorted({int(each["port"]) for each in listeners if each.get("port")})
    protocols = sorted({str(each["protocol"]) for each in listeners if each.get("protocol") in KNOWN_PROTOCOLS})
    return [
        *(("port-listener", str(port)) for port in ports),
        *(("protocol-listener", protocol) for protocol in protocols),
    ]


KNOWN_PROTOCOLS: Final = {"amqp", "amqp/ssl", "http", "https"}


def _check(api: Api, names: tuple[str, ...]) -> View:
    path = ("health", "checks", *names)
    answer = api.ask("GET", path)
    row: View = {"check": " ".join(names), "status": OK, "reason": ""}
    if answer.status_code == 404:
        row["status"] = UNKNOWN
    elif answer.status_code == 503:
        row.update(status=FAILED, reason=_reason(answer.json()))
    elif not answer.is_success:
        raise api.refusal(answer, "GET", path)
    return row


def _reason(said: Any) -> str:
    return str(said.get("reason", "")) if isinstance(said, dict) else str(said)


def whoami(call: Call) -> None:
    """Show the user name and its tags."""
    view = call.api.get("whoami")
    if call.output.as_json:
        call.output.json(view)
        return
    tags = view["tags"] if isinstance(view["tags"], str) else ", ".join(view["tags"])
    call.output.line(f"{view['name']} at {call.api.address.url}, {f'tags: {tags}' if tags else 'no tags'}")


def add_commands(root: typer.Typer, panel: str) -> None:
    broker_command(root, "status", panel=panel)(status)
    broker_command(root, "health", panel=panel)(health)
    broker_command(root, "whoami", panel=panel)(whoami)

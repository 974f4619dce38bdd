"""The broker's listeners in RabbitMQ's form: protocol, address and port, derived from the broker's URLs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from rabbitlike.management.context import Context

_PROTOCOLS: Final = {"amqp": "amqp", "amqps": "amqp/ssl", "http": "http", "https": "https", "unix": "amqp"}
PROMETHEUS: Final = "http/prometheus"

#: parity: other names of the protocols that health checks accept.
_ALIASES: Final = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqp0_9_1": "amqp",
    "amqps": "amqp/ssl",
    "amqp/tls": "amqp/ssl",
    "http1": "http",
    "http1.1": "http",
    "http_api": "http",
    "management": "http",
    "management_ui": "http",
    "ui": "http",
    "prometheus": PROMETHEUS,
}


@dataclass(frozen=True, slots=True)
class Listener:
    protocol: str
    address: str
    port: int
    is_tls: bool


def listeners_of(here: Context) -> Iterator[Listener]:
    for url in here.urls:
        parts = urlsplit(url)
        protocol = _PROTOCOLS.get(parts.scheme, parts.scheme)
        if parts.port is not None and parts.port == here.prometheus_port:
            protocol = PROMETHEUS
        # A unix socket has a path and no port. parity: RabbitMQ has none; its tools show 0 for "none".
        yield Listener(protocol, parts.hostname or parts.path, parts.port or 0, parts.scheme in ("amqps", "https"))


def listener_views(here: Context) -> list[dict[str, object]]:
    found = [
        {
            "node": here.node,
            "protocol": each.protocol,
            "ip_address": each.address,
            "port": each.port,
            "socket_opts": {"backlog": 128, "nodelay": True, "linger": [True, 0], "exit_on_close": False},
        }
        for each in listeners_of(here)
    ]
    return sorted(found, key=lambda each: (str(each["protocol"]), int(str(each["port"]))))


def context_views(here: Context) -> list[dict[str, object]]:
    """The web applications. parity: ports are strings here."""
    names = {"http": "RabbitMQ Management", "https": "RabbitMQ Management", PROMETHEUS: "RabbitMQ Prometheus"}
    return [
        {
            "ssl_opts": [],
            "node": here.node,
            "description": names[each.protocol],
            "path": "/",
            "cowboy_opts": "[]",
            "ip": each.address,
            "port": str(each.port),
        }
        for each in listeners_of(here)
        if each.protocol in names
    ]


def canonical(protocol: str) -> str:
    """The protocol's name in the list of listeners."""
    name = protocol.lower()
    return _ALIASES.get(name, name)

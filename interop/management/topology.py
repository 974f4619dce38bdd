"""One rich topology, declared over AMQP and HTTP as a user would, on whatever broker: all that lists can show.

What is declared stays as it is while the connections in `Topology` are open.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from interop.management.doors import Doors
from interop.patience import eventually

VHOST: Final = "parity"
SLASHED: Final = "par/ity"
USERS: Final = {
    "pa-administrator": "administrator",
    "pa-monitoring": "monitoring",
    "pa-policymaker": "policymaker",
    "pa-management": "management",
    "pa-plain": "",
    "pa-limited": "management",
}
PASSWORD: Final = "opensesame"
EVERY_ARGUMENT: Final[dict[str, Any]] = {
    "x-message-ttl": 600_000,
    "x-expires": 3_600_000,
    "x-max-length": 1000,
    "x-max-length-bytes": 1_000_000,
    "x-overflow": "reject-publish",
    "x-dead-letter-exchange": "amq.fanout",
    "x-dead-letter-routing-key": "dead",
    "x-max-priority": 5,
    "x-queue-mode": "default",
    "x-queue-type": "classic",
    "x-own-argument": "kept",
}
HEADERS: Final[dict[str, Any]] = {
    "text": "word",
    "number": 42,
    "big": 1 << 40,
    "flag": True,
    "nothing": None,
    "list": [1, "two", False],
    "table": {"inner": "value"},
}


@dataclass
class Topology:
    """What is held open, and the names a broker gave."""

    connections: list[BlockingConnection] = field(default_factory=list)
    channels: dict[str, BlockingChannel] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # for paths: connection, channel, node, …

    def close(self) -> None:
        for connection in self.connections:
            with contextlib.suppress(pika.exceptions.AMQPError):  # one may have been closed over HTTP
                connection.close()


def declare(doors: Doors) -> Topology:
    topology = Topology()
    _accounts(doors)
    _policies(doors)
    _exchanges_and_queues(doors, topology)
    _clients(doors, topology)
    _wait(doors, topology)
    return topology


def _accounts(doors: Doors) -> None:
    doors.do("PUT", f"/vhosts/{VHOST}", {"description": "For comparing", "tags": "qa,staging"})
    doors.do("PUT", "/vhosts/par%2Fity", {})
    for name, tags in USERS.items():
        doors.do("PUT", f"/users/{name}", {"password": PASSWORD, "tags": tags})
    doors.do("PUT", "/users/pa-nobody", {"password_hash": "", "tags": ["management", "own-tag"]})
    for name in ("guest", *USERS):
        doors.do("PUT", f"/permissions/{VHOST}/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
    for name in ("pa-plain", "pa-limited"):
        doors.do("PUT", f"/permissions/%2F/{name}", {"configure": "^own-", "write": "", "read": "^own-|^shared-"})
    doors.do(
        "PUT",
        f"/topic-permissions/{VHOST}/pa-plain",
        {"exchange": "amq.topic", "write": "^a", "read": "^(a|{username})"},
    )
    doors.do("PUT", f"/vhost-limits/{VHOST}/max-connections", {"value": 100})
    doors.do("PUT", f"/vhost-limits/{VHOST}/max-queues", {"value": 500})
    doors.do("PUT", "/user-limits/pa-plain/max-connections", {"value": 10})
    doors.do("PUT", "/user-limits/pa-plain/max-channels", {"value": 20})
    doors.do("PUT", "/global-parameters/own-setting", {"value": {"deep": [1, {"er": True}]}})


def _policies(doors: Doors) -> None:
    limits = {"pattern": "^limited", "definition": {"max-length": 100, "message-ttl": 60_000}, "priority": 3}
    doors.do("PUT", f"/policies/{VHOST}/limits", limits | {"apply-to": "queues"})
    alternate = {"pattern": "^alternating", "definition": {"alternate-exchange": "amq.fanout"}}
    doors.do("PUT", f"/policies/{VHOST}/alternates", alternate | {"apply-to": "exchanges"})
    doors.do("PUT", "/policies/%2F/everywhere", {"pattern": "^covered", "definition": {"expires": 3_600_000}})
    ceiling = {"pattern": "^limited", "definition": {"max-length": 50, "max-length-bytes": 100_000}, "priority": 1}
    doors.do("PUT", f"/operator-policies/{VHOST}/ceiling", ceiling | {"apply-to": "queues"})


def _exchanges_and_queues(doors: Doors, topology: Topology) -> None:
    doors.do("PUT", "/queues/%2F/covered", {"durable": True})
    connection = doors.connect("declarer", VHOST)
    topology.connections.append(connection)
    channel = connection.channel()
    channel.exchange_declare("a-direct", "direct", durable=True)
    channel.exchange_declare("a-fanout", "fanout")
    channel.exchange_declare("a-topic", "topic", durable=True, auto_delete=True)
    channel.exchange_declare("a-headers", "headers", durable=True, internal=True)
    channel.exchange_declare("alternated", "direct", durable=True, arguments={"alternate-exchange": "a-fanout"})
    channel.exchange_declare("alternating-by-policy", "direct", durable=True)
    channel.exchange_declare("a-hash", "x-consistent-hash", durable=True, arguments={"hash-header": "key"})
    channel.exchange_bind("a-topic", "a-direct", "some.key", {"note": "between exchanges"})
    channel.queue_declare("plain", durable=True)
    channel.queue_declare("transient", auto_delete=True)
    channel.queue_declare("everything", durable=True, arguments=EVERY_ARGUMENT)
    channel.queue_declare("limited", durable=True)
    channel.queue_declare("lazy", durable=True, arguments={"x-queue-mode": "lazy"})
    channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 5})
    channel.queue_declare("single", durable=True, arguments={"x-single-active-consumer": True})
    channel.queue_declare("alone", durable=True)
    channel.queue_declare("unacked", durable=True)
    channel.queue_declare("filled", durable=True)
    channel.queue_declare("idle/slashed name", durable=True)
    own = channel.queue_declare("", exclusive=True).method.queue
    topology.names["exclusive"] = own
    for queue, exchange, key, arguments in [
        ("plain", "a-direct", "plain", None),
        ("plain", "a-topic", "#.end", None),
        ("plain", "a-topic", "argued", {"x": 1}),
        ("plain", "a-fanout", "", None),
        ("filled", "a-fanout", "", None),
        ("everything", "a-headers", "", {"x-match": "all", "colour": "red", "size": 3}),
        ("idle/slashed name", "a-direct", "key/with slash", None),
        (own, "amq.topic", "own.*", None),
        ("plain", "a-hash", "1", None),
    ]:
        channel.queue_bind(queue, exchange, key, arguments)
    topology.channels["declarer"] = channel


def _clients(doors: Doors, topology: Topology) -> None:
    publisher = doors.connect("publisher", VHOST, ("pa-administrator", PASSWORD))
    consumer = doors.connect("consumer", VHOST)
    topology.connections += [publisher, consumer]

    confirming = publisher.channel()
    confirming.confirm_delivery()
    for number in range(10):
        confirming.basic_publish("a-direct", "plain", b"body %d" % number, persistent(number))
        confirming.basic_publish("", "unacked", b"{}", pika.BasicProperties(delivery_mode=2))
    confirming.basic_publish("a-fanout", "", b"\xff\x00not text", pika.BasicProperties(headers={"x": 1}))
    confirming.basic_publish("", "everything", b"with priority", pika.BasicProperties(priority=4))
    for _ in range(3):
        confirming.basic_publish("", "filled", "grün".encode(), persistent(7))
        confirming.basic_publish("", "quorum", b"replicated")
        confirming.basic_publish("", "limited", b"x" * 100)
    confirming.basic_publish("a-direct", "nowhere", b"dropped")
    try:
        confirming.basic_publish("a-direct", "nowhere", b"returned", mandatory=True)
    except pika.exceptions.UnroutableError:
        pass

    transactional = publisher.channel()
    transactional.tx_select()
    transactional.basic_publish("", "filled", b"never committed")

    prefetching = consumer.channel()
    prefetching.basic_qos(prefetch_count=3)
    prefetching.basic_consume("unacked", lambda *_: None, consumer_tag="takes-three")
    prefetching.basic_consume("plain", lambda *_: None, auto_ack=True, consumer_tag="takes-all")
    prefetching.basic_consume(
        "transient", lambda *_: None, consumer_tag="argued", arguments={"x-priority": 7, "note": "mine"}
    )
    exclusive = consumer.channel()
    exclusive.basic_qos(prefetch_count=50, global_qos=True)
    exclusive.basic_consume("alone", lambda *_: None, exclusive=True, consumer_tag="excludes")
    for tag in ("active", "waiting"):
        exclusive.basic_consume("single", lambda *_: None, consumer_tag=tag)
    getting = consumer.channel()
    getting.basic_get("filled", auto_ack=True)
    first, _, _ = getting.basic_get("filled")
    getting.basic_nack(first.delivery_tag, requeue=True)
    again, _, _ = getting.basic_get("filled")
    getting.basic_ack(again.delivery_tag)
    getting.basic_get("lazy")
    topology.channels |= {
        "confirming": confirming,
        "transactional": transactional,
        "prefetching": prefetching,
        "exclusive": exclusive,
        "getting": getting,
    }


def persistent(number: int) -> pika.BasicProperties:
    """Every property but user-id and cluster-id."""
    return pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=HEADERS,
        delivery_mode=2,
        priority=0,  # what else it does on a queue without x-max-priority is a difference of its own
        correlation_id=f"c-{number}",
        reply_to="answers",
        expiration="3600000",
        message_id=f"m-{number}",
        timestamp=1_700_000_000 + number,
        type="greeting",
        app_id="parity",
    )


def _wait(doors: Doors, topology: Topology) -> None:
    """Until statistics show what was done: RabbitMQ makes them anew only so often."""

    def is_seen() -> bool:
        for connection in topology.connections:
            connection.process_data_events(0)
        queues: Any = doors.get(f"/queues/{VHOST}?columns=name,messages,messages_unacknowledged,message_stats.ack")
        seen = {queue["name"]: queue for queue in queues}
        listed: Any = doors.get("/connections")
        channels: Any = doors.get("/channels")
        return (
            seen["unacked"].get("messages_unacknowledged") == 3
            and seen["filled"].get("messages") == 2
            and seen["quorum"].get("messages") == 3
            and "ack" in seen["filled"].get("message_stats", {})
            and {"declarer", "publisher", "consumer"} <= {entry.get("user_provided_name") for entry in listed}
            and sum("message_stats" in entry for entry in channels) >= 3
            and all("idle_since" in entry for entry in channels)
        )

    eventually(is_seen, "statistics show the topology")
    listed: Any = doors.get("/connections")
    by_name = {entry["user_provided_name"]: entry["name"] for entry in listed if "user_provided_name" in entry}
    topology.names["declaring_connection"] = by_name["declarer"]
    topology.names["connection"] = by_name["publisher"]
    topology.names["consuming_connection"] = by_name["consumer"]
    topology.names["confirming"] = f"{by_name['publisher']} (1)"
    topology.names["transactional"] = f"{by_name['publisher']} (2)"
    topology.names["prefetching"] = f"{by_name['consumer']} (1)"
    topology.names["exclusive_qos"] = f"{by_name['consumer']} (2)"
    overview: Any = doors.get("/overview")
    topology.names["node"] = overview["node"]
    parameters: Any = doors.get("/global-parameters")
    topology.names["cluster_id"] = next(p["value"] for p in parameters if p["name"] == "internal_cluster_id")
    bindings: Any = doors.get(f"/bindings/{VHOST}")
    for name, key in (("slashed_binding", "key/with slash"), ("argued_binding", "argued")):
        topology.names[name] = next(b["properties_key"] for b in bindings if b["routing_key"] == key)

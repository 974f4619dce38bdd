"""Views of connections, channels and consumers for the management API: dicts with RabbitMQ's field names.

The management reaches them through `Client` in broker/broker.py and `Subscriber.view`, since it does not import
sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.views import GARBAGE, IDLE_MS, View, channel_stats, instant, node_name, table, text
from rabbitlike.protocol.handshake import State

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.session.channel import Channel
    from rabbitlike.session.connection import Connection
    from rabbitlike.session.consumer import Consumer

_STARTING: Final = {
    State.AWAIT_HEADER: "starting",
    State.AWAIT_START_OK: "starting",
    State.AWAIT_TUNE_OK: "tuning",
    State.AWAIT_OPEN: "opening",
    State.CLOSING: "closing",
    State.CLOSED: "closed",
}


def connection_details(connection: Connection) -> View:
    """The fields that identify a connection."""
    return {"name": connection.name, "peer_host": connection.peer.host, "peer_port": connection.peer.port}


def connection_state(connection: Connection) -> str:
    """parity: `blocking` will be blocked when it publishes, `blocked` is blocked, `flow` is not being read."""
    if not connection.is_open:
        return _STARTING[connection.state]
    if connection.is_blocked:
        return "blocked"
    if connection.broker.turn.alarmed:
        return "blocking"
    return "flow" if connection.is_held else "running"


def connection(connection: Connection) -> View:
    peer = connection.peer
    user = "" if connection.user is None else text(connection.user.name)
    view: View = {
        "name": connection.name,
        "node": node_name(connection.settings),
        "user": user,
        "user_who_performed_action": user,
        "vhost": "" if connection.vhost is None else text(connection.vhost.name),
        "protocol": "AMQP 0-9-1",
        "type": "network",
        "state": connection_state(connection),
        "host": peer.local_host,
        "port": peer.local_port,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "ssl": peer.tls,
        "ssl_protocol": peer.tls_protocol,
        "ssl_key_exchange": peer.tls_key_exchange,
        "ssl_cipher": peer.tls_cipher,
        "ssl_hash": peer.tls_hash,
        "peer_cert_subject": text(peer.certificate_subject),
        "peer_cert_issuer": text(peer.certificate_issuer),
        "peer_cert_validity": peer.certificate_validity,
        "channels": len(connection.channels),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "timeout": connection.heartbeat,
        "auth_mechanism": connection.mechanism,
        "client_properties": table(connection.client_properties),
        "connected_at": connection.connected_at_ms,
        "recv_oct": connection.recv_oct,
        "recv_cnt": connection.recv_cnt,
        "send_oct": connection.send_oct,
        "send_cnt": connection.send_cnt,
        "send_pend": connection.send_pend,
        "garbage_collection": GARBAGE,
    }
    given = connection.client_properties.get("connection_name")
    if isinstance(given, str):
        view["user_provided_name"] = text(given)
    return view


def channel(channel: Channel) -> View:
    """A channel in lists."""
    connection, unacked, transaction = channel.connection, channel.unacked, channel.transaction
    user = "" if connection.user is None else text(connection.user.name)
    active_at_ms = channel.counters.active_at_ms
    view: View = {
        "name": channel.name,
        "number": channel.number,
        "node": node_name(connection.settings),
        "user": user,
        "user_who_performed_action": user,
        "vhost": text(channel.vhost.name),
        "connection_details": connection_details(connection),
        "state": channel_state(channel),
        "confirm": channel.confirms is not None,
        "transactional": transaction is not None,
        "consumer_count": len(channel.consumers) + (channel.reply_consumer is not None),
        "prefetch_count": channel.prefetch_count,
        "global_prefetch_count": unacked.limit,
        "messages_unacknowledged": unacked.count,
        "messages_unconfirmed": 0 if channel.confirms is None else channel.confirms.unanswered,
        "messages_uncommitted": 0 if transaction is None else len(transaction.publications),
        "acks_uncommitted": 0 if transaction is None else len(transaction.settles),
        "pending_raft_commands": 0,
        "garbage_collection": GARBAGE,
    }
    if connection.broker.clock.now_ms() - active_at_ms >= IDLE_MS:
        view["idle_since"] = instant(active_at_ms)
    if stats := channel_stats(channel.counters):
        view["message_stats"] = stats
    return view


def channel_state(channel: Channel) -> str:
    if not channel.is_open:
        return "closing"
    return "flow" if channel.connection.is_held else "running"


def channel_details(channel: Channel) -> View:
    """The fields that identify a channel."""
    connection = channel.connection
    return {
        "name": channel.name,
        "number": channel.number,
        "node": node_name(connection.settings),
        "user": "" if connection.user is None else text(connection.user.name),
        "connection_name": connection.name,
        "peer_host": connection.peer.host,
        "peer_port": connection.peer.port,
    }


def consumer(consumer: Consumer) -> View:
    queue = consumer.queue
    is_active, status = True, "up"
    if queue.consumers.single_active:
        is_active = queue.consumers.active is consumer
        status = "single_active" if is_active else "waiting"
    return {
        "consumer_tag": text(consumer.tag),
        "queue": {"name": text(queue.name), "vhost": text(queue.vhost.name)},
        "channel_details": channel_details(consumer.channel),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch_count,
        "active": is_active,
        "activity_status": status,
        "arguments": table(consumer.arguments),
    }


def held_of(channel: Channel, queue: Queue) -> list[View]:
    """The deliveries of one queue that a channel has not settled, oldest first."""
    return [
        {
            "position": delivery.message.position,
            "delivery_tag": delivery.tag,
            "consumer_tag": "" if delivery.consumer is None else text(delivery.consumer.tag),
            "delivered_at": delivery.delivered_at_ms,
            "redelivered": delivery.message.attempts > 0,
            "message_bytes": len(delivery.message.body),
            "channel_details": channel_details(channel),
        }
        for delivery in channel.unacked.deliveries()
        if delivery.queue is queue
    ]

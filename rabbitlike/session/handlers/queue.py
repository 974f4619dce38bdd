"""queue.*: check permissions to declare, bind, purge and delete queues, call the vhost, and answer.

An empty name means the queue that this channel declared last; in a declare it requests a generated name. Names that
start with `amq.rabbitmq.reply-to` identify a direct-reply consumer; no queue is behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pamqp import commands

from rabbitlike.broker.accounts import access
from rabbitlike.broker.publishing.reply_names import DIRECT_REPLY
from rabbitlike.broker.vhost import plain_name
from rabbitlike.protocol import methods
from rabbitlike.protocol.errors import not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.protocol.tables import Table
    from rabbitlike.session.channel import Channel


def declare(channel: Channel, method: commands.Queue.Declare) -> None:
    name = plain_name(method.queue)
    if name.startswith(DIRECT_REPLY):
        _declare_reply_to(channel, name)
        _declare_ok(channel, method, name, message_count=0, consumer_count=1)
        return
    arguments = cast("Table", method.arguments)
    # parity: passive requires no permission.
    if not method.passive:
        access.declare_queue(channel.permit, channel.vhost, name, arguments)
    queue = channel.vhost.declare_queue(
        name,
        passive=method.passive,
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
        arguments=arguments,
        owner=channel.connection,
    )
    _declare_ok(channel, method, queue.name, queue.message_count, queue.consumer_count)


def _declare_ok(
    channel: Channel, method: commands.Queue.Declare, name: str, message_count: int, consumer_count: int
) -> None:
    channel.last_queue = name
    if not method.nowait:
        channel.send(
            methods.make(
                commands.Queue.DeclareOk, queue=name, message_count=message_count, consumer_count=consumer_count
            )
        )


def _declare_reply_to(channel: Channel, name: str) -> None:
    """Raise 404 if no consumer waits for replies under this name; other fields of the declare are ignored."""
    if name != DIRECT_REPLY and name not in channel.vhost.replies:
        raise not_found(f"no queue '{name}' in vhost '{channel.vhost.name}'")


def bind(channel: Channel, method: commands.Queue.Bind) -> None:
    name, key = _binding_end(channel, method)
    source = plain_name(method.exchange)
    vhost = channel.vhost
    access.bind(channel.permit, channel.connection.permit_topic, vhost, source, "queue", name, key)
    vhost.exchange(source)  # parity: if both ends are missing, the error names the source
    vhost.bind(source, vhost.queue(name, channel.connection), key, cast("Table", method.arguments))
    if not method.nowait:
        channel.send(methods.make(commands.Queue.BindOk))


def unbind(channel: Channel, method: commands.Queue.Unbind) -> None:
    name, key = _binding_end(channel, method)
    source = plain_name(method.exchange)
    vhost = channel.vhost
    access.bind(channel.permit, channel.connection.permit_topic, vhost, source, "queue", name, key)
    queue, arguments = vhost.queues.get(name), cast("Table", method.arguments)
    if queue is not None and vhost.is_bound(source, queue, key, arguments):
        # parity: exclusive ownership matters only if there is something to unbind.
        queue = vhost.queue(name, channel.connection)
    vhost.unbind(source, queue, key, arguments)
    channel.send(methods.make(commands.Queue.UnbindOk))


def _binding_end(channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind) -> tuple[str, str]:
    """Queue name and routing key. spec: if both are empty, the last declared queue is bound by its own name."""
    if method.queue:
        return plain_name(method.queue), method.routing_key
    name = expand_name(channel, "")
    return name, method.routing_key or name


def purge(channel: Channel, method: commands.Queue.Purge) -> None:
    name = expand_name(channel, method.queue)
    channel.permit("read", "queue", name)
    count = channel.vhost.queue(name, channel.connection).purge()
    if not method.nowait:
        channel.send(methods.make(commands.Queue.PurgeOk, message_count=count))


def delete(channel: Channel, method: commands.Queue.Delete) -> None:
    name = plain_name(expand_name(channel, method.queue))
    channel.permit("configure", "queue", name)
    vhost = channel.vhost
    count = 0
    # parity: deleting a queue that does not exist succeeds.
    if name in vhost.queues:
        queue = vhost.queue(name, channel.connection)
        count = vhost.delete_queue(queue, if_unused=method.if_unused, if_empty=method.if_empty)
    if not method.nowait:
        channel.send(methods.make(commands.Queue.DeleteOk, message_count=count))


def expand_name(channel: Channel, name: str) -> str:
    """Expand an empty queue name to the queue that this channel declared last; 404 if there is none."""
    if name:
        return name
    if not channel.last_queue:
        raise not_found("no previously declared queue")
    return channel.last_queue


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Queue.Declare.index: declare,
    commands.Queue.Bind.index: bind,
    commands.Queue.Unbind.index: unbind,
    commands.Queue.Purge.index: purge,
    commands.Queue.Delete.index: delete,
}

"""queue.*: who may declare, bind, purge and delete queues, and the answers. What happens then is the vhost's.

An empty name means the queue this channel declared last; in a declare it asks the broker for a name.
Names that start with `amq.rabbitmq.reply-to` stand for a consumer of direct replies; there is no queue behind them.
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
    # parity: passive asks for no permission.
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
    """Answers whether somebody still waits for replies under this name, 404 if not, whatever else the declare says."""
    if name != DIRECT_REPLY and name not in channel.vhost.replies:
        raise not_found(f"no queue '{name}' in vhost '{channel.vhost.name}'")


def bind(channel: Channel, method: commands.Queue.Bind) -> None:
    name, key = _binding_end(channel, method)
    source = plain_name(method.exchange)
    vhost = channel.vhost
    access.bind(channel.permit, channel.connection.permit_topic, vhost, source, "queue", name, key)
    vhost.exchange(source)  # parity: when both ends are missing, the source is the one named
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
        # parity: whose queue it is matters only where there is something to unbind.
        queue = vhost.queue(name, channel.connection)
    vhost.unbind(source, queue, key, arguments)
    channel.send(methods.make(commands.Queue.UnbindOk))


def _binding_end(channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind) -> tuple[str, str]:
    """Queue name and routing key. spec: with both empty, the last declared queue is bound by its own name."""
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
    # parity: a queue that is not there is as good as deleted.
    if name in vhost.queues:
        queue = vhost.queue(name, channel.connection)
        count = vhost.delete_queue(queue, if_unused=method.if_unused, if_empty=method.if_empty)
    if not method.nowait:
        channel.send(methods.make(commands.Queue.DeleteOk, message_count=count))


def expand_name(channel: Channel, name: str) -> str:
    """A queue's name as a method meant it: empty is the last queue this channel declared, 404 when it has none."""
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

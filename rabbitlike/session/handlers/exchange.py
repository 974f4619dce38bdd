"""exchange.*: check permissions to declare, delete and bind exchanges, call the vhost, and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pamqp import commands

from rabbitlike.broker.accounts import access
from rabbitlike.broker.vhost import plain_name
from rabbitlike.protocol import methods

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.protocol.tables import Table
    from rabbitlike.session.channel import Channel


def declare(channel: Channel, method: commands.Exchange.Declare) -> None:
    name = plain_name(method.exchange)
    arguments = cast("Table", method.arguments)
    # parity: passive requires no permission.
    if not method.passive:
        access.declare_exchange(channel.permit, channel.vhost, name, method.exchange_type, arguments)
    channel.vhost.declare_exchange(
        name,
        method.exchange_type,
        passive=method.passive,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=arguments,
    )
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.DeclareOk))


def delete(channel: Channel, method: commands.Exchange.Delete) -> None:
    name = plain_name(method.exchange)
    access.delete_exchange(channel.permit, name)
    channel.vhost.delete_exchange(name, if_unused=method.if_unused)
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.DeleteOk))


def bind(channel: Channel, method: commands.Exchange.Bind) -> None:
    source, destination = plain_name(method.source), plain_name(method.destination)
    vhost = channel.vhost
    permit_topic = channel.connection.permit_topic
    access.bind(channel.permit, permit_topic, vhost, source, "exchange", destination, method.routing_key)
    vhost.exchange(source)  # parity: if both ends are missing, the error names the source
    vhost.bind(source, vhost.exchange(destination), method.routing_key, cast("Table", method.arguments))
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.BindOk))


def unbind(channel: Channel, method: commands.Exchange.Unbind) -> None:
    source, destination = plain_name(method.source), plain_name(method.destination)
    vhost = channel.vhost
    permit_topic = channel.connection.permit_topic
    access.bind(channel.permit, permit_topic, vhost, source, "exchange", destination, method.routing_key)
    vhost.unbind(source, vhost.exchanges.get(destination), method.routing_key, cast("Table", method.arguments))
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.UnbindOk))


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Exchange.Declare.index: declare,
    commands.Exchange.Delete.index: delete,
    commands.Exchange.Bind.index: bind,
    commands.Exchange.Unbind.index: unbind,
}

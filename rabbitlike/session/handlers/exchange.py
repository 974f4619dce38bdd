"""exchange.*: who may declare, delete and bind exchanges, and the answers. What happens then is the vhost's.

Checks come in RabbitMQ's order, because a client sees the first that fails: permission before existence, so that nobody
learns names by asking. `check_binding_access` is what queue.bind and queue.unbind need as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from pamqp import commands

from rabbitlike.broker.exchanges import KINDS
from rabbitlike.broker.exchanges.exchange import ALTERNATE
from rabbitlike.broker.vhost import RESERVED, plain_name, refuse_default
from rabbitlike.protocol import methods

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.protocol.tables import Table
    from rabbitlike.session.channel import Channel


def declare(channel: Channel, method: commands.Exchange.Declare) -> None:
    name = plain_name(method.exchange)
    arguments = cast("Table", method.arguments)
    # parity: passive asks for no permission; an unknown type is refused before permission is looked at.
    if not method.passive and method.exchange_type in KINDS:
        refuse_default(name)
        channel.permit("configure", "exchange", name)
        if name not in channel.vhost.exchanges:
            _permit_alternate(channel, name, arguments)
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


def _permit_alternate(channel: Channel, name: str, arguments: Table) -> None:
    """Whoever sends messages on to an alternate exchange reads them here and writes them there."""
    for argument in ALTERNATE:
        alternate = arguments.get(argument)
        if isinstance(alternate, str):
            channel.permit("read", "exchange", name)
            channel.permit("write", "exchange", alternate)


def delete(channel: Channel, method: commands.Exchange.Delete) -> None:
    name = plain_name(method.exchange)
    refuse_default(name)
    # parity: predeclared exchanges are refused as such, permitted or not.
    if not name.startswith(RESERVED):
        channel.permit("configure", "exchange", name)
    channel.vhost.delete_exchange(name, if_unused=method.if_unused)
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.DeleteOk))


def bind(channel: Channel, method: commands.Exchange.Bind) -> None:
    source, destination = plain_name(method.source), plain_name(method.destination)
    check_binding_access(channel, source, "exchange", destination, method.routing_key)
    vhost = channel.vhost
    vhost.exchange(source)  # parity: when both ends are missing, the source is the one named
    vhost.bind(source, vhost.exchange(destination), method.routing_key, cast("Table", method.arguments))
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.BindOk))


def unbind(channel: Channel, method: commands.Exchange.Unbind) -> None:
    source, destination = plain_name(method.source), plain_name(method.destination)
    check_binding_access(channel, source, "exchange", destination, method.routing_key)
    vhost = channel.vhost
    vhost.unbind(source, vhost.exchanges.get(destination), method.routing_key, cast("Table", method.arguments))
    if not method.nowait:
        channel.send(methods.make(commands.Exchange.UnbindOk))


def check_binding_access(
    channel: Channel, source: str, resource: Literal["queue", "exchange"], destination: str, routing_key: str
) -> None:
    """A binding writes to its destination and reads from its source; a topic exchange has a say about the key, too."""
    channel.permit("write", resource, destination)
    if resource == "exchange":
        refuse_default(destination)
    refuse_default(source)
    channel.permit("read", "exchange", source)
    exchange = channel.vhost.exchanges.get(source)
    if exchange is not None and exchange.kind == "topic":
        channel.connection.permit_topic("read", source, routing_key)


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Exchange.Declare.index: declare,
    commands.Exchange.Delete.index: delete,
    commands.Exchange.Bind.index: bind,
    commands.Exchange.Unbind.index: unbind,
}

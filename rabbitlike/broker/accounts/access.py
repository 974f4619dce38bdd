"""Permissions required to declare, delete and bind, over AMQP and over HTTP.

Checks run in RabbitMQ's order, because the client sees the first that fails: permission before existence, so that a
client cannot probe for names. `permit` raises 403 unless the user has that access to that exchange or queue.
"""

from __future__ import annotations

from secrets import token_urlsafe
from typing import TYPE_CHECKING, Literal, Protocol

from rabbitlike.broker.exchanges import KINDS
from rabbitlike.broker.exchanges.exchange import ALTERNATE
from rabbitlike.broker.queue_settings.arguments import check_server_named, dead_letter_exchange
from rabbitlike.broker.queues.dead_letters.dead_letter_queue import SUFFIX
from rabbitlike.broker.vhost import RESERVED, SERVER_NAMED, refuse_default

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.permissions import Access, Resource
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.protocol.tables import Table


class Permit(Protocol):
    def __call__(self, access: Access, resource: Resource, name: str, /) -> None: ...


class PermitTopic(Protocol):
    def __call__(self, access: Literal["write", "read"], exchange: str, routing_key: str, /) -> None: ...


def declare_queue(permit: Permit, vhost: Vhost, name: str, arguments: Table) -> None:
    """Require configure permission on the queue. A dead-letter exchange also requires read permission on the queue and
    write permission on that exchange; an automatic dead-letter queue requires configure permission on it."""
    if not name:
        check_server_named(arguments)
        # The real name is generated later; for an expression all random names are alike.
        name = SERVER_NAMED + token_urlsafe(16)
    elif name.startswith(RESERVED):
        return  # parity: a reserved name is refused later, with or without permission
    permit("configure", "queue", name)
    if name not in vhost.queues:
        dead_letters = dead_letter_exchange(arguments, queue=name, vhost=vhost.name)
        if dead_letters is not None:
            permit("read", "queue", name)
            permit("write", "exchange", dead_letters)
        elif arguments.get("x-dead-letter-auto") is True:
            # The broker declares it later on behalf of this user.
            permit("configure", "queue", name + SUFFIX)


def declare_exchange(permit: Permit, vhost: Vhost, name: str, kind: str, arguments: Table) -> None:
    """Require configure permission on the exchange. An alternate exchange also requires read permission on the exchange
    and write permission on the alternate.

    parity: an unknown type is refused before permissions are checked.
    """
    if kind not in KINDS:
        return
    refuse_default(name)
    permit("configure", "exchange", name)
    if name in vhost.exchanges:
        return
    for argument in ALTERNATE:
        alternate = arguments.get(argument)
        if isinstance(alternate, str):
            permit("read", "exchange", name)
            permit("write", "exchange", alternate)


def delete_exchange(permit: Permit, name: str) -> None:
    refuse_default(name)
    # parity: predeclared exchanges are refused later, with or without permission.
    if not name.startswith(RESERVED):
        permit("configure", "exchange", name)


def bind(
    permit: Permit,
    permit_topic: PermitTopic,
    vhost: Vhost,
    source: str,
    resource: Resource,
    destination: str,
    routing_key: str,
) -> None:
    """Require write permission on the destination and read permission on the source, and for a topic exchange the topic
    permission for the key. Unbinding requires the same."""
    permit("write", resource, destination)
    if resource == "exchange":
        refuse_default(destination)
    refuse_default(source)
    permit("read", "exchange", source)
    exchange = vhost.exchanges.get(source)
    if exchange is not None and exchange.kind == "topic":
        permit_topic("read", source, routing_key)

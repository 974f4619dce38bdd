"""Which permissions it takes to declare and bind, whoever asks: a client over AMQP or a user over HTTP.

Checks come in RabbitMQ's order, because whoever asks sees the first that fails: permission before existence, so that
nobody learns names by asking. `permit` raises 403 unless the user has that access to that exchange or queue.
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
    """Configure the queue; who sends its dead letters on also reads from it and writes to where they go, and who has it
    keep them configures the queue they are kept in."""
    if not name:
        check_server_named(arguments)
        # The name is given later: no expression can tell one random name from the next.
        name = SERVER_NAMED + token_urlsafe(16)
    elif name.startswith(RESERVED):
        return  # parity: a reserved name is refused as such, permitted or not
    permit("configure", "queue", name)
    if name not in vhost.queues:
        dead_letters = dead_letter_exchange(arguments, queue=name, vhost=vhost.name)
        if dead_letters is not None:
            permit("read", "queue", name)
            permit("write", "exchange", dead_letters)
        elif arguments.get("x-dead-letter-auto") is True:
            # It is declared in this user's name, later.
            permit("configure", "queue", name + SUFFIX)


def declare_exchange(permit: Permit, vhost: Vhost, name: str, kind: str, arguments: Table) -> None:
    """Configure the exchange; who sends messages on to an alternate reads them here and writes them there.

    parity: an unknown type is refused before permission is looked at.
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
    # parity: predeclared exchanges are refused as such, permitted or not.
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
    """A binding writes to its destination and reads from its source; a topic exchange has a say about the key, too.
    Unbinding takes the same."""
    permit("write", resource, destination)
    if resource == "exchange":
        refuse_default(destination)
    refuse_default(source)
    permit("read", "exchange", source)
    exchange = vhost.exchanges.get(source)
    if exchange is not None and exchange.kind == "topic":
        permit_topic("read", source, routing_key)

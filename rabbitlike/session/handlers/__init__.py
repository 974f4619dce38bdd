"""Handlers of AMQP methods: one module per class, one short function per method.

The two tables list all methods that a client can call; any other method closes the connection with 503. Hot methods
(publish, ack, nack, reject) are not here: the frame reader passes them to the channel directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rabbitlike.session.handlers import access, basic, channel, confirm, connection, exchange, queue, tx
from rabbitlike.session.handlers.connection import greet, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.session.channel import Channel
    from rabbitlike.session.connection import Connection

__all__ = ["CHANNEL_HANDLERS", "CONNECTION_HANDLERS", "greet", "refuse"]

#: By pamqp's index of the method: class id and method id in one number.
CHANNEL_HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    **access.HANDLERS,
    **basic.HANDLERS,
    **channel.HANDLERS,
    **confirm.HANDLERS,
    **exchange.HANDLERS,
    **queue.HANDLERS,
    **tx.HANDLERS,
}
CONNECTION_HANDLERS: dict[int, Callable[[Connection, Any], None]] = connection.HANDLERS

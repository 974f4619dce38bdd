"""channel.*: open, close and flow of a channel that both sides consider open.

Frames for a channel that the broker has closed do not get here: the connection discards them until close-ok. Nor does
the first channel.open of a number, since no channel exists yet; `check_channel_number` checks whether it may be opened.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pamqp import commands

from rabbitlike.protocol import methods
from rabbitlike.protocol.errors import channel_error, not_allowed, not_implemented

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.session.channel import Channel
    from rabbitlike.session.connection import Connection


def check_channel_number(connection: Connection, number: int) -> None:
    """Raise 530 if the client has as many channels as were negotiated. parity: their count matters, not their
    numbers."""
    count, most = len(connection.channels), connection.channel_max
    if most != 0 and count >= most:
        connection.method_index = 0  # parity: the error names no method
        raise not_allowed(f"number of channels opened ({count}) has reached the negotiated channel_max ({most})")
    assert connection.user is not None
    user = connection.broker.users.get(connection.user.name)
    if user is not None and user.limits:
        index, connection.method_index = connection.method_index, 0
        connection.broker.usage.check_channel(user)
        connection.method_index = index


def open_again(channel: Channel, method: commands.Channel.Open) -> None:
    raise channel_error("second 'channel.open' seen")


def close(channel: Channel, method: commands.Channel.Close) -> None:
    channel.write_answers()  # a client may rely on confirms for its earlier publishes
    channel.close()
    channel.connection.run(channel.release, partial(_answer_close, channel))


def _answer_close(channel: Channel) -> None:
    channel.connection.drop_channel(channel.number)
    channel.send(methods.make(commands.Channel.CloseOk))


def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """parity: only prefetch limits deliveries."""
    if not method.active:
        raise not_implemented("active=false")
    channel.send(methods.make(commands.Channel.FlowOk, active=True))


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Channel.Open.index: open_again,
    commands.Channel.Close.index: close,
    commands.Channel.Flow.index: flow,
}

"""channel.*: open, close and flow of a channel that both sides take for open.

A channel the broker has closed never gets here: its connection discards what arrives until close-ok. Nor does the first
channel.open of a number, since there is no channel yet; `check_channel_number` says whether there may be one.
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
    """530 when the client has as many channels as were agreed. parity: how many there are counts, not their numbers."""
    count, most = len(connection.channels), connection.channel_max
    if most != 0 and count >= most:
        connection.method_index = 0  # parity: no method is blamed
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
    channel.write_answers()  # a client may count on the confirms of what it published before
    channel.close()
    channel.connection.run(channel.release, partial(_answer_close, channel))


def _answer_close(channel: Channel) -> None:
    channel.connection.drop_channel(channel.number)
    channel.send(methods.make(commands.Channel.CloseOk))


def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """parity: deliveries are held back by prefetch alone."""
    if not method.active:
        raise not_implemented("active=false")
    channel.send(methods.make(commands.Channel.FlowOk, active=True))


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Channel.Open.index: open_again,
    commands.Channel.Close.index: close,
    commands.Channel.Flow.index: flow,
}

"""confirm.select: from here on the broker confirms every publish of the channel; see session/confirms.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pamqp import commands

from rabbitlike.protocol import methods
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.session.confirms import Confirms

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.session.channel import Channel


def select(channel: Channel, method: commands.Confirm.Select) -> None:
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(methods.make(commands.Confirm.SelectOk))


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {commands.Confirm.Select.index: select}

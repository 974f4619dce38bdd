"""tx.*: publishes and settles of a channel wait for commit; see session/transaction.py and session/tx_commit.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pamqp import commands

from rabbitlike.protocol import methods
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.session.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.session.channel import Channel


def select(channel: Channel, method: commands.Tx.Select) -> None:
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(methods.make(commands.Tx.SelectOk))


def commit(channel: Channel, method: commands.Tx.Commit) -> None:
    channel.commit(partial(_answer_commit, channel))


def _answer_commit(channel: Channel, is_stored: bool) -> None:
    if is_stored:
        channel.connection.hold_answers()
    channel.send(methods.make(commands.Tx.CommitOk))


def rollback(channel: Channel, method: commands.Tx.Rollback) -> None:
    channel.rollback()
    channel.send(methods.make(commands.Tx.RollbackOk))


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Tx.Select.index: select,
    commands.Tx.Commit.index: commit,
    commands.Tx.Rollback.index: rollback,
}

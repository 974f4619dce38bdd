"""access.request, which 0-9-1 removed and old clients still send. All get the same ticket, which is never checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rabbitlike.protocol import methods
from rabbitlike.protocol.methods import Access

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.session.channel import Channel


def request(channel: Channel, method: Access.Request) -> None:
    channel.send(methods.make(Access.RequestOk, ticket=1))


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {Access.Request.index: request}

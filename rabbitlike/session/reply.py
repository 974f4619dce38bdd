"""Direct reply-to: a requester gets its replies without a queue.

A channel that consumes from the pseudo queue gets one ReplyConsumer with an unguessable name. A responder publishes to
that name on the default exchange, and the broker writes the reply to the requester's connection. Nothing is stored:
replies to a disconnected requester, or to one with too much unread output, are dropped.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.publishing.reply_names import make_reply_name
from rabbitlike.session.outlet import Outlet
from rabbitlike.session.unacked import Unacked

if TYPE_CHECKING:
    from rabbitlike.session.flow import Flow

#: A requester with more unread octets gets no replies.
UNREAD_REPLIES = 64 * 1024 * 1024


class ReplyConsumer:
    """The direct-reply consumer of a channel; at most one each."""

    __slots__ = ("_flow", "_number", "_outlet", "_tag_octets", "_unacked", "name", "tag")

    def __init__(self, tag: str, number: int, flow: "Flow", outlet: Outlet, unacked: Unacked) -> None:
        self.tag = tag
        self.name = make_reply_name()
        octets = tag.encode("utf-8", "surrogateescape")
        self._tag_octets = bytes((len(octets),)) + octets
        self._number = number
        self._flow = flow
        self._outlet = outlet
        self._unacked = unacked

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> bool:
        if self._flow.send_pend > UNREAD_REPLIES:
            return False
        self._unacked.last_tag += 1
        self._outlet.put_deliver(
            self._number,
            self._tag_octets,
            self._unacked.last_tag,
            False,
            address,
            properties,
            body,
            self._outlet.payload_max,
        )
        self._outlet.mark()
        return True

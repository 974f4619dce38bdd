"""Direct reply-to: a requester gets its replies without a queue.

A channel that consumes from the pseudo queue has one ReplyConsumer under a name nobody can guess; a responder publishes
to that name on the default exchange and the reply is written straight to the requester's connection. Nothing is stored:
a requester that is gone gets nothing.
"""

from secrets import token_urlsafe

from rabbitlike.session.outlet import Outlet
from rabbitlike.session.unacked import Unacked

DIRECT_REPLY = "amq.rabbitmq.reply-to"


class ReplyConsumer:
    """The one consumer of direct replies that a channel may have."""

    __slots__ = ("_number", "_outlet", "_tag_octets", "_unacked", "name", "tag")

    def __init__(self, tag: str, number: int, outlet: Outlet, unacked: Unacked) -> None:
        self.tag = tag
        self.name = f"{DIRECT_REPLY}.{token_urlsafe(24)}"
        octets = tag.encode("utf-8", "surrogateescape")
        self._tag_octets = bytes((len(octets),)) + octets
        self._number = number
        self._outlet = outlet
        self._unacked = unacked

    def deliver(self, address: bytes, properties: bytes, body: bytes) -> None:
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

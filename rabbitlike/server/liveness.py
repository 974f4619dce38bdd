"""Whether the other end of a TCP connection is still there, without reading from it.

A client that is not read, or does not read, cannot be judged by what it says. The kernel knows more: it asks the other
end on an idle connection (keepalive), sends again what was not acknowledged, and asks again and again whether a full
receive window has opened (RFC 9293, 3.8.6.1). A client that is alive acknowledges all of these, however busy it is.
Linux only; elsewhere, and on Unix sockets, nothing is known and everybody counts as present.
"""

import socket
import struct
from typing import Final, NamedTuple

#: How often a client is looked at that is not read or does not read.
LOOK_MS: Final = 15_000
#: A client that has acknowledged nothing for so long, although it was asked, is gone.
SILENT_MS: Final = 45_000
#: Keepalive: idle so long, then asked so many times, each so long after the last.
KEEPALIVE_IDLE_S: Final = 15
KEEPALIVE_INTERVAL_S: Final = 10
KEEPALIVE_COUNT: Final = 3

#: What Linux says of a socket whose other end is closed: close, close-wait, last-ack, closing.
CLOSED_STATES: Final = (7, 8, 9, 11)
#: The head of struct tcp_info: state, retransmits and unanswered probes, and milliseconds since the last ACK came.
_INFO: Final = struct.Struct("=BxBB52xI")


class TcpState(NamedTuple):
    """What the kernel knows of the other end."""

    is_closed: bool
    #: It was asked, and has not answered yet.
    is_asked: bool
    silent_ms: int

    @property
    def is_silent(self) -> bool:
        return self.is_asked and self.silent_ms >= SILENT_MS


UNKNOWN: Final = TcpState(False, False, 0)


def keep_asking(sock: socket.socket) -> None:
    """Have the kernel ask the other end now and then whether it is there: it may have had no way to say good-bye."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_COUNT)
    except (AttributeError, OSError):  # not on Linux, not TCP
        pass


def look(sock: socket.socket) -> TcpState:
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        state, retransmits, probes, silent_ms = _INFO.unpack(info)
    except (AttributeError, OSError, struct.error):  # not on Linux, not TCP
        return UNKNOWN
    return TcpState(state in CLOSED_STATES, retransmits > 0 or probes > 0, silent_ms)

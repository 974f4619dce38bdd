"""Checks whether the peer of a TCP connection is still there, without reading from it.

Input says nothing about a client that is not read or does not read. The kernel knows more: it probes an idle connection
(keepalive), retransmits what was not acknowledged, and probes a full receive window (RFC 9293, 3.8.6.1). A live
client's host acknowledges all of these, however busy the client is. Linux only; elsewhere, and on Unix sockets, every
client counts as present.
"""

import socket
import struct
from typing import Final, NamedTuple

#: Interval of checks for a client that is not read or does not read.
LOOK_MS: Final = 15_000
#: A client that has acknowledged nothing for this long despite probes is gone.
SILENT_MS: Final = 45_000
#: Keepalive: idle time before the first probe, interval of probes, and their number.
KEEPALIVE_IDLE_S: Final = 15
KEEPALIVE_INTERVAL_S: Final = 10
KEEPALIVE_COUNT: Final = 3

#: Linux's TCP states of a socket closed by the peer: close, close-wait, last-ack, closing.
CLOSED_STATES: Final = (7, 8, 9, 11)
#: The head of struct tcp_info: state, retransmits and unanswered probes, and milliseconds since the last ACK.
_INFO: Final = struct.Struct("=BxBB52xI")


class TcpState(NamedTuple):
    """What the kernel knows about the peer."""

    is_closed: bool
    #: The kernel has probed the peer and has no answer yet.
    is_asked: bool
    silent_ms: int

    @property
    def is_silent(self) -> bool:
        return self.is_asked and self.silent_ms >= SILENT_MS


UNKNOWN: Final = TcpState(False, False, 0)


def keep_asking(sock: socket.socket) -> None:
    """Turn on keepalive probes: a peer may disappear without closing the connection."""
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

"""One client's socket: passes input to `Connection.receive` and output to the kernel, and runs the timers.

All sockets share one read buffer: the loop fills it and the broker parses it at once, without awaiting in between. The
connection keeps an incomplete frame, which is copied to the front of the buffer before that socket's next read. A
socket whose reads take long waits for the others (`rounds`).
"""

import asyncio
import ipaddress
import logging
import ssl
from collections import deque
from functools import lru_cache
from typing import Final, cast

from rabbitlike.broker.broker import Broker
from rabbitlike.clock import Clock, Timer
from rabbitlike.protocol.constants import FRAME_OVERHEAD
from rabbitlike.protocol.frames import BodyFrames
from rabbitlike.server.busy_poll import BusyPoll
from rabbitlike.server.heartbeat import Heartbeat
from rabbitlike.server.liveness import LOOK_MS, keep_asking, look
from rabbitlike.server.rounds import Rounds
from rabbitlike.server.tls import agreed, certificate_name
from rabbitlike.session.connection import Connection
from rabbitlike.session.wire import Peer

#: Minimum octets read from a socket at once.
READ_SIZE: Final = 256 * 1024
#: Octets read at once while publishers have used up their credit.
SMALL_READ_SIZE: Final = 16 * 1024
#: Octets of a large body written at once; between these the loop serves other sockets.
WRITE_SIZE: Final = 512 * 1024
#: How long the client may take to read the last output and close its end after the broker has closed its own.
LINGER_MS: Final = 3000
#: How long the client may take to close the connection after close-ok.
LEAVE_MS: Final = 30_000  # parity

log = logging.getLogger("rabbitlike.connection")


class Transports:
    """State shared by all sockets of one broker, and the set of open ones."""

    def __init__(self, broker: Broker, clock: Clock, busy_poll: BusyPoll | None = None) -> None:
        self.broker = broker
        self.busy_poll = busy_poll
        self.turn = broker.turn
        self.clock = clock
        self.rounds = Rounds(clock)
        # The leftover is less than a frame; as much again must fit behind it.
        self.data = bytearray(max(READ_SIZE, 2 * (broker.settings.frame_max + FRAME_OVERHEAD)))
        self.view = memoryview(self.data)
        self.open: set[Transport] = set()
        self.drained: asyncio.Event | None = None

    def make(self) -> "Transport":
        return Transport(self)

    async def close(self, code: int, text: str, grace_ms: int) -> None:
        """Close every client's connection; abort those still open after `grace_ms`."""
        self.drained = asyncio.Event()
        for transport in tuple(self.open):
            if transport.is_opening:
                transport.abort()
        self.broker.close(code, text)
        if self.open:
            timer = self.clock.call_later(grace_ms, self._abort)
            await self.drained.wait()
            timer.cancel()

    def _abort(self) -> None:
        for transport in tuple(self.open):
            transport.abort()

    def leave(self, transport: "Transport") -> None:
        self.open.discard(transport)
        if self.drained is not None and not self.open:
            self.drained.set()


class Transport(asyncio.BufferedProtocol):
    """The asyncio side of one connection; implements Wire for the session."""

    __slots__ = (
        "_connection",
        "_deadline",
        "_heartbeat",
        "_is_closing",
        "_is_ended",
        "_is_held",
        "_is_stuck",
        "_is_waiting",
        "_kept",
        "_look_timer",
        "_outgoing",
        "_shared",
        "_transport",
        "_was_silent",
    )

    def __init__(self, shared: Transports) -> None:
        self._shared = shared
        self._kept = 0  # octets of this connection at the front of the buffer
        self._is_closing = False  # no further output is written, and input is ignored
        self._is_ended = False  # the client has closed its side and still gets our output
        #: Large bodies that the loop does not have in full, and output after them.
        self._outgoing: deque[bytes | BodyFrames] = deque()
        self._is_held = False  # the session has paused reading
        self._is_waiting = False  # not read until the others have had their turn
        self._is_stuck = False  # the client does not read our output
        self._was_silent = False  # the client had not answered the kernel at the last check
        self._look_timer: Timer | None = None
        self._deadline: Timer | None = None

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        shared = self._shared
        peer = peer_of(self._transport)
        settings = shared.broker.settings
        self._transport.set_write_buffer_limits(high=settings.out_buffer_limit)
        self._connection = Connection(shared.broker, self, peer)
        self._heartbeat = Heartbeat(shared.clock, self._connection.send_heartbeat, self._drop_silent)
        self._deadline = shared.clock.call_later(settings.handshake_timeout_ms, self._check_opened)
        shared.open.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        leftover = self._connection.leftover
        kept = self._kept = len(leftover)
        credit = self._shared.broker.credit
        if credit is not None and credit.is_exhausted:
            # Many connections may be read before each is stopped, so keep reads small.
            self._shared.data[:kept] = leftover
            return self._shared.view[kept : kept + SMALL_READ_SIZE]
        if not kept:
            return self._shared.view
        self._shared.data[:kept] = leftover
        return self._shared.view[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_closing:
            return
        self._heartbeat.received += nbytes
        shared = self._shared
        before_ns = shared.turn.total_ns
        self._connection.receive(shared.data, self._kept + nbytes)
        if shared.busy_poll is not None and not shared.broker.commit_waiters:
            shared.busy_poll.prolong()
        if not self._is_waiting and shared.rounds.must_wait(self, shared.turn.total_ns - before_ns):
            self._is_waiting = True
            if not self._is_held and not self._transport.is_closing():
                self._transport.pause_reading()

    def read_on(self) -> None:
        """Resume reading after waiting for others."""
        self._is_waiting = False
        if not self._is_held and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """Handle the end of the client's output; the loop closes the socket unless more is to be written."""
        self._is_ended = bool(self._outgoing)
        return self._is_ended

    def pause_writing(self) -> None:
        self._is_stuck = True
        self._watch()
        self._connection.pause_delivery()

    def resume_writing(self) -> None:
        self._is_stuck = False
        if self._outgoing:
            self._write_on()
        else:
            self._connection.resume_delivery()

    def _write_on(self) -> None:
        """Give the loop the next piece of output queued behind a large body, while the client reads."""
        outgoing = self._outgoing
        if self._is_stuck or not outgoing:
            return
        first = outgoing[0]
        data = first if isinstance(first, bytes) else first.take(WRITE_SIZE)
        if data:
            self._heartbeat.written += len(data)
            self._transport.write(data)
        if not data or data is first:
            outgoing.popleft()
        if outgoing:
            self._shared.clock.call_later(0, self._write_on)
        elif self._is_closing:
            self._end_output()
        elif self._is_ended:
            self._transport.close()
        elif not self._is_stuck:
            self._connection.resume_delivery()

    def connection_lost(self, error: Exception | None) -> None:
        if self not in self._shared.open:
            return
        for timer in (self._deadline, self._look_timer):
            if timer is not None:
                timer.cancel()
        self._deadline = self._look_timer = None
        self._outgoing.clear()
        self._heartbeat.end()
        if error is not None:
            log.debug("%s: %s", self._connection.name, error)
        self._connection.lost()
        self._shared.leave(self)

    # Called by the session

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self._outgoing:
            self._outgoing.append(data)
            return
        self._heartbeat.written += len(data)
        self._transport.write(data)

    def write_frames(self, frames: BodyFrames) -> None:
        if self._is_closing:
            return
        self._outgoing.append(frames)
        if len(self._outgoing) == 1:
            self._connection.pause_delivery()
            self._shared.clock.call_later(0, self._write_on)

    def close(self) -> None:
        """Send pending output, then close our side and wait briefly for the client to close its own.

        Closing at once with unread input would reset the socket, and the client might never see our last frame.
        """
        if self._is_closing:
            return
        self._end_within(LINGER_MS)
        if not self._outgoing:
            self._end_output()

    def _end_output(self) -> None:
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def leave(self) -> None:
        """Send pending output, and wait for the client to close the connection.

        A client that has not read close-ok yet would treat our close as a failure.
        """
        if not self._is_closing:
            self._end_within(LEAVE_MS)

    def _end_within(self, patience_ms: int) -> None:
        self.resume_reading()
        self._is_closing = True
        self._heartbeat.stop()
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._shared.clock.call_later(patience_ms, self.abort)

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def pause_reading(self) -> None:
        self._is_held = True
        if not self._transport.is_closing():
            if not self._is_waiting:
                self._transport.pause_reading()
            self._heartbeat.pause()
            self._watch()

    def resume_reading(self) -> None:
        self._is_held = False
        if not self._transport.is_closing():
            if not self._is_waiting:
                self._transport.resume_reading()
            self._heartbeat.resume()

    def start_heartbeat(self, seconds: int) -> None:
        self._heartbeat.start(seconds)

    # Timers

    @property
    def is_opening(self) -> bool:
        """Whether the client has not reached connection.open yet."""
        return not self._connection.is_open and not self._connection.is_closing

    def _check_opened(self) -> None:
        self._deadline = None
        if self.is_opening:
            log.warning("%s: no connection.open within the handshake timeout", self._connection.name)
            self.abort()

    def _watch(self) -> None:
        """Start checking whether the client still exists, because its input cannot show that now."""
        if self._look_timer is None:
            self._was_silent = False
            keep_asking(self._transport.get_extra_info("socket"))
            self._look_timer = self._shared.clock.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        """Drop a client that has disappeared; otherwise its partial message, transaction and deliveries would stay
        forever."""
        self._look_timer = None
        if not self._is_held and not self._is_stuck:
            return
        signs = look(self._transport.get_extra_info("socket"))
        # Silent twice in a row: at the first check, the answer to the kernel's probe may have been in transit.
        if (signs.is_closed and self._is_held) or (signs.is_silent and self._was_silent):
            log.warning("%s: the client disappeared: no answer from its host", self._connection.name)
            self.abort()
            return
        self._was_silent = signs.is_silent
        self._look_timer = self._shared.clock.call_later(LOOK_MS, self._look)

    def _drop_silent(self) -> None:
        # parity: no connection.close; a silent peer would not read it
        log.warning("%s: missed heartbeats from the client", self._connection.name)
        self.abort()


def peer_of(transport: asyncio.Transport) -> Peer:
    """The peer of this transport."""
    secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    host, port = _address(transport.get_extra_info("peername"))
    local_host, local_port = _address(transport.get_extra_info("sockname"))
    return Peer(
        host=host,
        port=port,
        local_host=local_host,
        local_port=local_port,
        tls=secured is not None,
        certificate_name=certificate_name(secured) if secured is not None else None,
        is_loopback=_is_loopback(host),
        **({} if secured is None else agreed(secured)),
    )


#: Stands for the address of a client on a Unix socket.
UNIX_HOST: Final = "unix"


@lru_cache(maxsize=1024)
def _is_loopback(host: str) -> bool:
    return host == UNIX_HOST or ipaddress.ip_address(host).is_loopback


def _address(address: object) -> tuple[str, int]:
    if not isinstance(address, tuple):
        return UNIX_HOST, 0
    host = str(address[0]).partition("%")[0]
    # A dual-stack socket shows IPv4 clients as ::ffff:1.2.3.4; treat and log them as IPv4.
    return host.removeprefix("::ffff:") if "." in host else host, int(address[1])

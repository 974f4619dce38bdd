"""A connection of one client, from the protocol header to the close.

`receive` is the only entry point and the only place that catches an AmqpError; `fail` turns it into channel.close or
connection.close, depending on its code. A closing channel discards everything until close-ok; after a framing error the
connection ignores all input. However it ends, `release` returns what the client held, once. `flow`, the base class,
sends answers; `handlers` implements the methods, including the handshake.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from pamqp import commands

from rabbitlike.broker.accounts.permissions import Access, Resource
from rabbitlike.clock import Timer
from rabbitlike.protocol import erlang, methods, octets
from rabbitlike.protocol.constants import (
    BODY_FRAME,
    DISCARD,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
)
from rabbitlike.protocol.content import Content
from rabbitlike.protocol.errors import (
    AmqpError,
    channel_error,
    command_invalid,
    frame_error,
    internal_error,
    unexpected_frame,
)
from rabbitlike.protocol.handshake import FRAME_MAX_BEFORE_TUNE, PROTOCOL_HEADER, State
from rabbitlike.protocol.tables import Table
from rabbitlike.session import views
from rabbitlike.session.channel import Channel
from rabbitlike.session.flow import Flow
from rabbitlike.session.handlers import CHANNEL_HANDLERS, CONNECTION_HANDLERS, greet, refuse
from rabbitlike.session.handlers.channel import check_channel_number
from rabbitlike.session.wire import Peer, Wire

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.vhost import Vhost

log = logging.getLogger(__name__)

#: parity: how long the socket stays open after a framing error, so that the client can read the reason.
LINGER_MS = 3000
CLOSE_OK_TIMEOUT_MS = 30_000

# Python code looks up members of an Enum (in 3.11), so look up each of them once.
AWAIT_HEADER, OPEN, CLOSING, CLOSED = State.AWAIT_HEADER, State.OPEN, State.CLOSING, State.CLOSED
CLOSE, CLOSE_OK = commands.Connection.Close.index, commands.Connection.CloseOk.index

#: Methods that may still arrive on a closed channel; correct clients often send them.
LATE = (
    commands.Basic.Ack.index,
    commands.Basic.Nack.index,
    commands.Basic.Reject.index,
    commands.Channel.CloseOk.index,
)

#: Methods that do not wait for earlier deliveries. parity: basic.recover redelivers what was sent to the client, not
#: messages that are still to be sent.
UNSERVED = (commands.Basic.Recover.index, commands.Basic.RecoverAsync.index)

EXPECTED = {
    METHOD_FRAME: "expected method frame, got non method frame instead",
    HEADER_FRAME: "expected content header for class 60, got non content header frame instead",
    BODY_FRAME: "expected content body, got non content body frame instead",
}


class Connection(Flow):
    """A client's connection."""

    __slots__ = (
        "_close_timer",
        "_ignores_input",
        "_is_released",
        "_used_numbers",
        "capabilities",
        "channel_max",
        "client_properties",
        "connected_at_ms",
        "frame_max",
        "heartbeat",
        "is_blocked",
        "leftover",
        "mechanism",
        "name",
        "peer",
        "recv_cnt",
        "recv_oct",
        "settings",
        "state",
        "user",
    )

    def __init__(self, broker: "Broker", wire: Wire, peer: Peer) -> None:
        super().__init__(broker, wire)
        self.settings = broker.settings
        self.peer = peer
        self.name = str(peer)
        # Not the turn's time: nothing has been read yet, so that is the start of any client's last turn.
        self.connected_at_ms = broker.clock.now_ms()
        #: Octets of an incomplete frame; the next read begins with them.
        self.leftover = b""
        self.state = AWAIT_HEADER
        # Octets and reads
        self.recv_oct = 0
        self.recv_cnt = 0
        # Negotiated
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.payload_max = FRAME_MAX_BEFORE_TUNE
        self.channel_max = 0
        self.heartbeat = 0
        self.mechanism = ""
        self.user: User | None = None
        self.client_properties = Table()
        self.capabilities: dict[str, bool] = {}
        #: An alarm has blocked this client.
        self.is_blocked = False
        #: Closed channel numbers that were open before.
        self._used_numbers: set[int] = set()
        #: Further input is ignored.
        self._ignores_input = False
        self._is_released = False
        self._close_timer: Timer | None = None
        broker.connections.add(self)

    @property
    def is_open(self) -> bool:
        return self.state is OPEN

    @property
    def is_closing(self) -> bool:
        return self.state in (CLOSING, CLOSED)

    # Input

    def receive(self, data: bytearray, end: int) -> None:
        """Handle ``data[:end]``: the leftover of the last read and the octets that have arrived since."""
        self.turn.begin()
        size = end - len(self.leftover)
        self.recv_oct += size
        self.recv_cnt += 1
        self.read_bytes = size
        if self.vhost is not None:
            self.vhost.recv_oct += size
        fresh_bytes = self.fresh_bytes()
        self._handle(data, end)
        self.end_turn(fresh_bytes)

    def _handle(self, data: bytearray, end: int) -> None:
        self.at = 0
        if self.state is AWAIT_HEADER and not self._take_header(data, end):
            return
        while not self._ignores_input:
            start = self.at
            try:
                self.feed(data, end)
                break
            except AmqpError as error:
                if self.at == start:
                    # The frame's size cannot be trusted, so the start of the next frame is unknown.
                    self._ignores_input = True
                self.fail(error)
            except Exception:
                log.exception("connection %s: unexpected error", self.name)
                self._ignores_input = self._ignores_input or self.at == start
                self.fail(internal_error("an unexpected error, for details see the broker log"))
        self.leftover = b"" if self._ignores_input or self.at == end else bytes(data[self.at : end])

    def handle_leftover(self) -> None:
        if self.leftover and not self._ignores_input:
            data = bytearray(self.leftover)
            self._handle(data, len(data))

    def _take_header(self, data: bytearray, end: int) -> bool:
        """Take the protocol header. False if it is incomplete or the connection ends."""
        header = bytes(data[: min(end, len(PROTOCOL_HEADER))])
        if len(header) < len(PROTOCOL_HEADER) and PROTOCOL_HEADER[:4].startswith(header[:4]):
            self.leftover = header
            return False
        self.leftover = b""
        if greet(self, header):
            self.at = len(header)
            return True
        self._ignores_input = True
        self.state = CLOSED
        self.release()
        return False

    def on_method(self, channel: Content, payload: bytes) -> None:
        method = methods.decode(payload)
        handler = CHANNEL_HANDLERS.get(method.index)
        if handler is None:
            raise command_invalid("unimplemented method")
        assert isinstance(channel, Channel)
        if method.index not in UNSERVED and not self.serve_before(len(payload) + FRAME_OVERHEAD):
            return
        recorded = self.journal.recorded if self.journal is not None else 0
        handler(channel, method)
        if self.journal is not None and self.journal.recorded != recorded:
            # Something durable was declared or deleted: answer once that is committed.
            self.hold_answers()
        self.wait_for_begun()
        self.stall_if_unread()
        self.stall_if_long()

    def on_odd_frame(self, kind: int, number: int, payload: bytes) -> None:
        if self.state is CLOSED:
            return
        if kind == HEARTBEAT_FRAME:
            if payload:
                raise frame_error(f"{erlang.frame(kind, payload)}: unknown_frame")
            if number != 0:
                raise unexpected_frame(erlang.frame(kind, payload))
        elif kind not in EXPECTED:
            raise frame_error(f"{erlang.frame(kind, payload)}: unknown_frame")
        elif number == 0:
            self._on_connection_frame(kind, payload)
        elif self.state is OPEN:
            self._on_channel_frame(kind, number, payload)
        elif self.state is not CLOSING:
            raise channel_error(f"frame on channel {number} before the connection is open")

    def _on_connection_frame(self, kind: int, payload: bytes) -> None:
        if kind != METHOD_FRAME:
            raise unexpected_frame(erlang.frame(kind, payload))
        self._note_method(payload)
        method = methods.decode(payload)
        if self.state is CLOSING and method.index not in (CLOSE, CLOSE_OK):
            return
        if method.index == CLOSE and not self.serve_before(len(payload) + FRAME_OVERHEAD):
            return
        handler = CONNECTION_HANDLERS.get(method.index, refuse)
        handler(self, method)

    def _on_channel_frame(self, kind: int, number: int, payload: bytes) -> None:
        """Handle a frame that its channel did not expect."""
        channel = self.channels.get(number)
        index = octets.get_u32(payload, 0) if kind == METHOD_FRAME and len(payload) >= 4 else 0
        if channel is None:
            self._on_closed_channel(kind, number, payload)
        elif channel.expecting == DISCARD:
            if index == commands.Channel.CloseOk.index:
                self.drop_channel(number)
            elif index == commands.Channel.Close.index:
                assert isinstance(channel, Channel)
                channel.send(methods.make(commands.Channel.CloseOk))
        else:
            self.method_index = commands.Basic.Publish.index if channel.expecting != METHOD_FRAME else 0
            raise unexpected_frame(EXPECTED[channel.expecting])

    def _on_closed_channel(self, kind: int, number: int, payload: bytes) -> None:
        if kind != METHOD_FRAME:
            raise unexpected_frame(EXPECTED[METHOD_FRAME])
        self._note_method(payload)
        method = methods.decode(payload)
        if method.index == commands.Channel.Open.index:
            self.open_channel(number)
        elif number not in self._used_numbers or method.index not in LATE:
            raise channel_error("expected 'channel.open'")

    def _note_method(self, payload: bytes) -> None:
        self.method_index = octets.get_u32(payload, 0) if len(payload) >= 4 else 0

    # Alarms

    def block(self) -> None:
        """Block the client. parity: an alarm blocks a client when it publishes, not before, and notifies it once."""
        if self.is_blocked or not self.is_open:
            return
        self.is_blocked = True
        if self.capabilities.get("connection.blocked"):
            self.send(methods.make(commands.Connection.Blocked, reason=self.broker.alarms.reason))
        self.hold("blocked")

    def unblock(self) -> None:
        if not self.is_blocked:
            return
        self.is_blocked = False
        if self.capabilities.get("connection.blocked") and self.is_open:
            self.send(methods.make(commands.Connection.Unblocked))
        self.release_hold("blocked")

    # Permissions

    def permit(self, access: Access, resource: Resource, name: str) -> None:
        assert self.user is not None
        assert self.vhost is not None
        self.broker.permissions.check(self.user.name, self.vhost.name, access, resource, name)

    def permit_topic(self, access: Literal["write", "read"], exchange: str, routing_key: str) -> None:
        assert self.user is not None
        assert self.vhost is not None
        self.broker.permissions.check_topic(self.user.name, self.vhost.name, access, exchange, routing_key)

    # Vhost and channels

    def enter(self, vhost: "Vhost") -> None:
        """Enter the vhost after the handshake; from now on the connection counts towards limits."""
        assert self.user is not None
        self.vhost = vhost
        self.broker.usage.connected(self.user.name, vhost.name)

    def open_channel(self, number: int) -> None:
        check_channel_number(self, number)
        assert self.vhost is not None
        assert self.user is not None
        channel = Channel(number, self, self.vhost)
        self.channels[number] = channel
        self.broker.usage.channel_opened(self.user.name)
        self.broker.churn.channels_created += 1
        self.forget_current()
        channel.send(methods.make(commands.Channel.OpenOk, channel_id=""))

    def drop_channel(self, number: int) -> None:
        """Free the channel number."""
        self.channels.pop(number, None)
        self._used_numbers.add(number)
        self.forget_current()

    # Closing

    def fail(self, error: AmqpError) -> None:
        """Close the channel or the connection because of an error; no other code does."""
        if error.class_id == 0:
            error.class_id, error.method_id = self.method_index >> 16, self.method_index & 0xFFFF
        number = self.current_number
        channel = self.channels.get(number)
        if error.is_hard or number == 0 or not isinstance(channel, Channel) or not self.is_open:
            log.warning("connection %s, channel %d: %r", self.name, number, error.reply_text)
            self.close(error)
            return
        self.fail_channel(channel, error)

    def fail_channel(self, channel: Channel, error: AmqpError) -> None:
        """Close one channel; the connection stays open."""
        log.info("connection %s, channel %d: %r", self.name, channel.number, error.reply_text)
        # Write pending answers before the close, so that the client gets its confirms.
        channel.write_answers()
        channel.send(
            methods.make(
                commands.Channel.Close,
                reply_code=error.code,
                reply_text=error.reply_text,
                class_id=error.class_id,
                method_id=error.method_id,
            )
        )
        channel.close()
        self.run(channel.release)

    def close(self, error: AmqpError) -> None:
        """Send connection.close and wait for close-ok for a limited time."""
        if self.is_closing:
            return
        self.release()
        self.state = CLOSING
        self.send(
            methods.make(
                commands.Connection.Close,
                reply_code=error.code,
                reply_text=error.reply_text,
                class_id=error.class_id,
                method_id=error.method_id,
            )
        )
        patience_ms = CLOSE_OK_TIMEOUT_MS
        if self._ignores_input:
            patience_ms = LINGER_MS
        elif 0 < self.heartbeat * 1000 < patience_ms:
            patience_ms = self.heartbeat * 1000
        self._close_timer = self.turn.at(patience_ms, self._give_up)
        self.release_all_holds()  # the client must be able to answer

    def shutdown(self, code: int, text: str) -> None:
        """Close this connection on request of the broker or an operator."""
        self.turn.begin()
        self.close(AmqpError(code, text))
        self.turn.finish()

    def finish_close(self, by_client: bool = False) -> None:
        """Close the socket after the last answer. spec: the peer that receives close-ok closes it."""
        self.release()
        self.state = CLOSED
        self._ignores_input = True
        self._is_left_to_client = by_client
        self.turn.later(self.hang_up)

    def _give_up(self) -> None:
        self._close_timer = None
        if self.state is not CLOSED:
            self.state = CLOSED
            self._ignores_input = True
            self.wire.abort()

    def lost(self) -> None:
        """End the session after the socket is closed."""
        self.turn.begin()
        self.state = CLOSED
        self.is_lost = True
        self._ignores_input = True
        self.outlet.open = False
        self.release()
        self.broker.commit_waiters.pop(self, None)
        self.turn.finish()
        self.detach()

    def release(self, then: Callable[[], None] | None = None) -> None:
        """Return everything this client holds (messages, consumers, exclusive queues), then call ``then``."""
        if self._close_timer is not None and self.state in (CLOSING, CLOSED):
            self._close_timer.cancel()
            self._close_timer = None
        if self._is_released:
            if then is not None:
                then()
            return
        self._is_released = True
        self.throttle.stop()
        channels = deque(self.open_channels())
        for channel in channels:
            channel.close()
        self.channels.clear()
        self.forget_current()
        self.run(partial(self._release_some, channels), then)
        if self.vhost is not None and self.user is not None:
            self.broker.usage.disconnected(self.user.name, self.vhost.name)
        self.broker.connections.discard(self)
        if self.vhost is not None:
            self.broker.churn.connections_closed += 1

    def _release_some(self, channels: deque[Channel]) -> bool:
        """Release channels while the turn has time; True if some are left."""
        while channels:
            if channels[0].release():
                return True
            channels.popleft()
            if self.turn.is_spent():
                return True
        return self.vhost is not None and self.vhost.remove_owner(self)

    # Views

    def details(self) -> dict[str, object]:
        return views.connection_details(self)

    def view(self) -> dict[str, object]:
        return views.connection(self)

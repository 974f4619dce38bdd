"""A connection's flow: when what its client is to hear goes out, and when the client is not read.

Answers and deliveries gather in the outlet and go to the socket once a turn, in `flush`; answers to what changed
something durable not before that is committed. A socket that takes no more stops deliveries at once, and the reading of
a client that asks on and on only when too much waits for it. What the octets say is in `connection`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pamqp import base

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol import methods
from rabbitlike.protocol.frames import FrameReader
from rabbitlike.session.channel import Channel
from rabbitlike.session.outlet import Outlet
from rabbitlike.session.publisher import Publisher
from rabbitlike.session.wire import Wire

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.vhost import Vhost

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
#: Deliveries to one client stop at this many octets until they have been handed to its socket. More than one read
#: brings in: what was published in one read to one consumer goes out in one write, not in one and a crumb.
FLUSH_SIZE = 512 * 1024
#: A client that asks on and on but reads no answers is not read either, once this much waits for it.
UNREAD_ANSWERS = 4 * 1024 * 1024
#: What came in one read is handled for this long, then others have their turn.
LONG_MS = 20


class Flow(FrameReader):
    """The half of a connection that knows its socket."""

    __slots__ = (
        "_answering",
        "_hold_until",
        "_holds",
        "_is_hanging_up",
        "_is_left_to_client",
        "_is_paused",
        "_unread",
        "broker",
        "journal",
        "outlet",
        "send_cnt",
        "send_oct",
        "turn",
        "vhost",
        "wire",
    )

    def __init__(self, broker: "Broker", wire: Wire) -> None:
        super().__init__()
        self.broker = broker
        self.turn: Turn = broker.turn
        self.journal: Journal | None = broker.journal
        self.wire = wire
        self.outlet = Outlet(self, self.turn, min(FLUSH_SIZE, broker.settings.out_buffer_limit))
        #: Where the client is, once it has said so.
        self.vhost: Vhost | None = None
        # Octets and writes
        self.send_oct = 0
        self.send_cnt = 0
        #: Channels with confirms to write at the next flush.
        self._answering: list[Publisher] = []
        #: Answers stay here until this commit is done; 0: they go at once.
        self._hold_until = 0
        self._is_hanging_up = False
        #: spec: who hears close-ok closes the socket.
        self._is_left_to_client = False
        #: The socket does not take more; and how much it was given nevertheless.
        self._is_paused = False
        self._unread = 0
        #: Why the client is not read.
        self._holds: set[str] = set()

    def open_channels(self) -> Iterator[Channel]:
        for channel in list(self.channels.values()):
            assert isinstance(channel, Channel)
            yield channel

    # Out

    def send(self, method: base.Frame) -> None:
        """A method on channel 0."""
        self.put(methods.encode(method, 0))

    def put(self, frame: bytes) -> None:
        """A frame that was made before."""
        self.outlet.put(frame)
        self.outlet.mark()

    def send_heartbeat(self) -> None:
        self._write(HEARTBEAT)

    def answer_later(self, channel: Publisher) -> None:
        """This channel has confirms to write at the next flush."""
        self._answering.append(channel)
        self.outlet.mark()

    def flush(self) -> None:
        """Hand everything to the socket. Called by the turn, once, after all queues were pumped."""
        if self._is_holding():
            return
        outlet = self.outlet
        outlet.flushed()
        if self._answering:
            answering = self._answering
            self._answering = []
            for channel in answering:
                channel.write_answers()
        if outlet.size:
            data = outlet.take()
            self._write(data)
            if self._is_paused:
                self._unread += len(data)
                if self._unread > UNREAD_ANSWERS:
                    self.hold("unread")
        if not self._is_paused:
            if self.is_stalled and "long" not in self._holds:
                self.turn.later(self._go_on)
            if not outlet.open:
                self._reopen()

    def _write(self, data: bytes) -> None:
        self.send_oct += len(data)
        self.send_cnt += 1
        if self.vhost is not None:
            self.vhost.send_oct += len(data)
        self.wire.write(data)

    def hang_up(self) -> None:
        """Close the socket, or let the client do it, once the last answer is out."""
        if self._is_holding():
            self._is_hanging_up = True
            return
        self._is_hanging_up = False
        self.flush()
        if self._is_left_to_client:
            self.wire.leave()
        else:
            self.wire.close()

    # Answers that wait for a commit

    def hold_answers(self) -> None:
        """What was answered just now, and what follows it, goes out when the present commit is done."""
        if self.journal is not None:
            self._hold_until = self.journal.number
            self.journal.ask()
            self.await_commit()

    def await_commit(self) -> None:
        self.broker.waiting[self] = None

    def _is_holding(self) -> bool:
        return self.journal is not None and self._hold_until > self.journal.committed

    def committed(self, number: int) -> bool:
        """Commit ``number`` is done. Is there nothing left here that waits for one?"""
        is_done = True
        for channel in self.open_channels():
            is_done = channel.committed(number) and is_done
        if 0 < self._hold_until <= number:
            self._hold_until = 0
            # Held back, it stayed marked: nobody but us flushes it now.
            self.turn.mark(self)
        if self._is_hanging_up and not self._is_holding():
            self.turn.later(self.hang_up)
        return is_done and self._hold_until == 0

    def commit_failed(self) -> None:
        for channel in self.open_channels():
            channel.commit_failed()

    # A client that does not read

    def pause_delivery(self) -> None:
        """The socket does not take more."""
        self._is_paused = True
        self.outlet.open = False

    def resume_delivery(self) -> None:
        self.turn.begin()
        self._is_paused = False
        self._go_on()
        self._reopen()
        self.turn.finish()

    def _reopen(self) -> None:
        self.outlet.open = True
        for channel in self.open_channels():
            channel.wake_consumers()

    @property
    def send_pend(self) -> int:
        """Octets that wait to be sent; roughly, once the socket does not take more."""
        return self.outlet.size + (self._unread if self._is_paused else 0)

    def stall_if_unread(self) -> None:
        """A few octets can ask for megabytes: no more of them before these are on their way."""
        if self.outlet.size > UNREAD_ANSWERS:
            self.is_stalled = True
            self.hold("unread")

    def stall_if_long(self) -> None:
        """Thousands of requests may come in one read, and some take long: no more of them before others had a turn."""
        if not self.is_stalled and self.broker.clock.now_ms() - self.turn.now_ms > LONG_MS:
            self.is_stalled = True
            self.hold("long")
            self.broker.clock.call_later(0, self._go_on_after_others)

    def _go_on_after_others(self) -> None:
        self.turn.begin()
        self.let_go("long")
        if "unread" not in self._holds:
            self._go_on()
        self.turn.finish()

    def _go_on(self) -> None:
        """Answers have been taken: handle what was left unread, and read on."""
        self.is_stalled = False
        self._unread = 0
        self.handle_leftover()
        if not self.is_stalled:
            self.let_go("unread")

    def handle_leftover(self) -> None:
        """Handle what was read before and not handled."""
        raise NotImplementedError

    # A client that is not read

    @property
    def is_held(self) -> bool:
        """Is it not being read?"""
        return bool(self._holds)

    def hold(self, reason: str) -> None:
        """Stop reading for a reason; reading goes on when no reason is left."""
        if not self._holds:
            self.wire.pause_reading()
        self._holds.add(reason)

    def let_go(self, reason: str) -> None:
        if reason in self._holds:
            self._holds.remove(reason)
            if not self._holds:
                self.wire.resume_reading()

    def let_all_go(self) -> None:
        """Read on, for whatever reason it was held."""
        for reason in tuple(self._holds):
            self.let_go(reason)

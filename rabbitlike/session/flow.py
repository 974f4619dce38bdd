"""Flow control of a connection: when output is sent, and when the client is not read.

Answers and deliveries collect in the outlet and go to the socket once per turn, in `flush`. Answers to durable changes
wait for their commit. A socket that accepts no more data stops deliveries at once; the broker stops reading the client
only when too much output is unread. `connection` interprets the input.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from pamqp import base

from rabbitlike.broker.journal import Journal
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol import methods
from rabbitlike.protocol.frames import FrameReader
from rabbitlike.session.channel import Channel
from rabbitlike.session.outlet import Outlet
from rabbitlike.session.publisher import Publisher
from rabbitlike.session.throttle import FLOW, Throttle
from rabbitlike.session.unserved import Unserved
from rabbitlike.session.wire import CLOSED_WIRE, Wire

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.vhost import Vhost

log = logging.getLogger(__name__)

HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
#: Deliveries to one client stop at this many octets until the socket has them. It exceeds one read, so that messages
#: published in one read to one consumer leave in one write.
FLUSH_SIZE = 512 * 1024
#: A client that sends requests but does not read the answers is not read either once this many octets are unread.
UNREAD_ANSWERS = 4 * 1024 * 1024
#: How many steps of long work one method counts as.
STEPS_PER_METHOD = 8


class Flow(FrameReader):
    """The part of a connection that knows its socket."""

    __slots__ = (
        "_answering",
        "_deliver_after",
        "_hold_until",
        "_holds",
        "_is_hanging_up",
        "_is_left_to_client",
        "_is_paused",
        "_is_served",
        "_unread",
        "_works",
        "broker",
        "is_lost",
        "journal",
        "outlet",
        "read_bytes",
        "send_cnt",
        "send_oct",
        "throttle",
        "turn",
        "vhost",
        "wire",
    )

    def __init__(self, broker: "Broker", wire: Wire) -> None:
        super().__init__()
        self.broker = broker
        self.turn: Turn = broker.turn
        self.journal: Journal | None = broker.journal
        self.wire: Wire = wire
        settings = broker.settings
        self.outlet = Outlet(self, self.turn, min(FLUSH_SIZE, settings.out_buffer_limit), settings.unacked_limit)
        #: Set by connection.open.
        self.vhost: Vhost | None = None
        # Octets and writes
        self.send_oct = 0
        self.send_cnt = 0
        #: Channels with confirms to write at the next flush.
        self._answering: list[Publisher] = []
        #: Answers are held until this commit is done; 0: not held.
        self._hold_until = 0
        #: Deliveries of messages that are not on disk yet are held until this commit; not while commits fail.
        self._deliver_after = 0
        self._is_hanging_up = False
        #: spec: the peer that receives close-ok closes the socket.
        self._is_left_to_client = False
        #: The socket accepts no more data; octets written to it nevertheless.
        self._is_paused = False
        self._unread = 0
        #: The socket is closed.
        self.is_lost = False
        #: Long operations that the client waits for.
        self._works = 0
        #: The current command has already waited for queues touched before it.
        self._is_served = False
        #: Reasons for not reading the client.
        self._holds: set[str] = set()
        #: Octets of the last read.
        self.read_bytes = 0
        self.throttle = Throttle(self, self.turn, self.journal, broker.credit)

    def open_channels(self) -> Iterator[Channel]:
        for channel in list(self.channels.values()):
            assert isinstance(channel, Channel)
            yield channel

    # Output

    def send(self, method: base.Frame) -> None:
        """Send a method on channel 0."""
        self.put(methods.encode(method, 0))

    def put(self, frame: bytes) -> None:
        """Put an encoded frame."""
        self.outlet.put(frame)
        self.outlet.mark()

    def send_heartbeat(self) -> None:
        self._write(HEARTBEAT)

    def answer_later(self, channel: Publisher) -> None:
        """Note that this channel has confirms to write at the next flush."""
        self._answering.append(channel)
        self.outlet.mark()

    def flush(self) -> None:
        """Hand all output to the socket. The turn calls it once, after it has pumped all queues."""
        if self._is_holding():
            return
        outlet = self.outlet
        outlet.flushed()
        if self._answering:
            answering = self._answering
            self._answering = []
            for channel in answering:
                channel.write_answers()
        if outlet.held is not None:
            self._write_held()
        elif outlet.size:
            data = outlet.take()
            self._write(data)
            if self._is_paused:
                self._unread += len(data)
                if self._unread > UNREAD_ANSWERS:
                    self.hold("unread")
        if not self._is_paused:
            if self.is_stalled and not self._works:
                self.turn.later(self._go_on)
            if not outlet.open:
                self._reopen()

    def _write(self, data: bytes) -> None:
        self.send_oct += len(data)
        self.send_cnt += 1
        if self.vhost is not None:
            self.vhost.send_oct += len(data)
        self.wire.write(data)

    def _write_held(self) -> None:
        """Write large bodies and the octets around them. The socket takes the bodies in pieces."""
        for part in self.outlet.take_held():
            if isinstance(part, bytes):
                self._write(part)
                size = len(part)
            else:
                size = part.size
                self.send_oct += size
                self.send_cnt += 1
                if self.vhost is not None:
                    self.vhost.send_oct += size
                self.wire.write_frames(part)
            if self._is_paused:
                self._unread += size
        if self._unread > UNREAD_ANSWERS:
            self.hold("unread")

    def hang_up(self) -> None:
        """Close the socket, or let the client close it, after the last answer."""
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
        """Hold this answer and everything after it until the current commit is done."""
        if self.journal is not None:
            self._hold_until = self.journal.number
            self.await_commit()

    def hold_deliveries(self, number: int) -> None:
        """Hold this delivery and everything after it until commit ``number`` is done."""
        if self.journal is not None and not self.journal.is_failing:
            self._deliver_after = max(self._deliver_after, number)
            self.await_commit()

    def await_commit(self) -> None:
        """Subscribe to commits and request the next one, because the awaited work may have nothing to store."""
        self.broker.commit_waiters[self] = None
        if self.journal is not None:
            self.journal.ask()

    def _is_holding(self) -> bool:
        return self.journal is not None and (
            self._hold_until > self.journal.committed or self._deliver_after > self.journal.committed
        )

    def committed(self, number: int) -> bool:
        """Note that commit ``number`` is done. True if nothing here waits for a later commit."""
        is_done = True
        for channel in self.open_channels():
            is_done = channel.committed(number) and is_done
        if 0 < self._hold_until <= number or 0 < self._deliver_after <= number:
            self._release(number)
        return is_done and self._hold_until == 0 and self._deliver_after == 0

    def _release(self, number: int) -> None:
        """Send what waited for this commit, unless something waits for a later one."""
        if self._hold_until <= number:
            self._hold_until = 0
        if self._deliver_after <= number:
            self._deliver_after = 0
        if not self._is_holding():
            # The outlet stayed marked while held, so the turn would not flush it by itself.
            self.turn.mark(self)
            if self._is_hanging_up:
                self.turn.later(self.hang_up)

    def commit_failed(self) -> bool:
        """Refuse what waits for a commit. True if nothing here waits for one any more."""
        for channel in self.open_channels():
            channel.commit_failed()
        if self._deliver_after:
            self._deliver_after = 0
            self._release(0)
        return self._hold_until == 0

    def detach(self) -> None:
        """Drop references after the socket is closed, so that reference counting frees the connection."""
        self.wire = CLOSED_WIRE
        self.outlet.detach()
        self.throttle.detach()

    # Clients that do not read

    def pause_delivery(self) -> None:
        """Stop deliveries because the socket accepts no more data."""
        self._is_paused = True
        self.outlet.open = False

    def resume_delivery(self) -> None:
        self.turn.begin()
        self._is_paused = False
        fresh_bytes = self.fresh_bytes()
        self._go_on()
        self._reopen()
        self.end_turn(fresh_bytes)

    def _reopen(self) -> None:
        self.outlet.open = True
        self.wake_consumers()

    def wake_consumers(self) -> None:
        """Wake all consumers, because the client can receive messages again."""
        for channel in self.open_channels():
            channel.wake_consumers()

    @property
    def send_pend(self) -> int:
        """Octets that wait to be sent; approximate while the socket accepts no more data."""
        return self.outlet.waiting_bytes() + (self._unread if self._is_paused else 0)

    def stall_if_unread(self) -> None:
        """Stop handling requests while large answers are unsent: a few octets can request megabytes."""
        if self.outlet.size > UNREAD_ANSWERS or self.outlet.held is not None:
            self.is_stalled = True
            self.hold("unread")

    def stall_if_long(self) -> None:
        """Stop handling requests when they take long, so that other clients get a turn: one read may hold thousands."""
        if not self.is_stalled and self.turn.is_late(STEPS_PER_METHOD):
            self.wait_for(_nothing)

    def wait_for_begun(self) -> None:
        """Wait for long work that the last method began, so that the next method finds it done."""
        begun = self.turn.begun()
        if begun and not self.is_stalled:
            self.wait_for(partial(self.turn.is_any_left, begun))

    def stall_for_later(self) -> None:
        """Stop handling requests until the dead letters that did not fit into the turn have been processed."""
        if not self.is_stalled:
            self.wait_for(partial(self.turn.has_later, self.turn.later_mark()))

    def serve_before(self, size: int) -> bool:
        """Serve queues touched before the current command, whose frame has ``size`` octets. False if the turn has no
        time for all of them: the command stays unread until they are served."""
        if self._is_served:
            self._is_served = False
            return True
        if self.turn.serve():
            return True
        self.at -= size
        self.wait_for(Unserved(self.turn).is_left, self._note_served)
        return False

    def _note_served(self) -> None:
        self._is_served = True

    # Long work

    def run(self, work: Callable[[], bool], then: Callable[[], None] | None = None) -> None:
        """Do long work for the client (see `Turn.run`), then call ``then``. The client is not read meanwhile, so that
        its next methods find the work done."""
        if work():
            self.wait_for(work, then)
        elif then is not None:
            then()

    def wait_for(
        self,
        work: Callable[[], bool],
        then: Callable[[], None] | None = None,
        begin: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Wait for work begun in this turn, or for work that begins when ``begin`` calls its argument; otherwise like
        `run`."""
        self._works += 1
        self.is_stalled = True
        self.hold("long")
        go_on = partial(self.turn.poll, partial(self._work_on, work, then))
        if begin is None:
            go_on()
        else:
            begin(go_on)

    def _work_on(self, work: Callable[[], bool], then: Callable[[], None] | None) -> bool:
        try:
            if work():
                return True
            if then is not None and not self.is_lost:
                then()
        except Exception:
            log.exception("a client's work failed: %r", work)  # but the client must be read again
        self._works -= 1
        if not self._works and not self.is_lost:
            self.release_hold("long")
            if "unread" not in self._holds:
                fresh_bytes = self.fresh_bytes()
                self._read_on()
                self._published(fresh_bytes)
        return False

    def _go_on(self) -> None:
        """Handle leftover input and read on, because the client has read its answers."""
        self._unread = 0
        self.release_hold("unread")
        self._read_on()

    def _read_on(self) -> None:
        if not self._works:
            self.is_stalled = False
            self.handle_leftover()

    def handle_leftover(self) -> None:
        """Handle input that was read but not handled."""
        raise NotImplementedError

    # Clients that publish much

    def fresh_bytes(self) -> int:
        """Bytes in the next commit so far; `end_turn` compares to find what this client added."""
        return 0 if self.journal is None else self.journal.fresh_bytes

    def end_turn(self, fresh_bytes: int) -> None:
        """End a turn that handled input of this client; ``fresh_bytes`` is the value from its beginning."""
        if not self.turn.finish():
            self.stall_for_later()
        self._published(fresh_bytes)

    def _published(self, fresh_bytes: int) -> None:
        if self.turn.congested or (self.journal is not None and self.journal.fresh_bytes != fresh_bytes):
            self.throttle.published(self.fresh_bytes() - fresh_bytes)

    def resume_publishing(self) -> None:
        self.throttle.resumed()
        self.release_hold(FLOW)

    @property
    def has_consumers(self) -> bool:
        return any(channel.consumers for channel in self.open_channels())

    # Clients that are not read

    @property
    def is_held(self) -> bool:
        """Whether the client is not being read."""
        return bool(self._holds)

    def hold(self, reason: str) -> None:
        """Stop reading for this reason; reading resumes when no reason is left."""
        if not self._holds:
            self.wire.pause_reading()
        self._holds.add(reason)

    def release_hold(self, reason: str) -> None:
        if reason in self._holds:
            self._holds.remove(reason)
            if not self._holds:
                self.wire.resume_reading()

    def release_all_holds(self) -> None:
        """Resume reading, whatever the reasons for holding were."""
        self.is_stalled = False
        for reason in tuple(self._holds):
            self.release_hold(reason)


def _nothing() -> bool:
    """Work that only waits for the next turn."""
    return False

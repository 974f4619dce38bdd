"""Held dead letters of one queue: sent at least once, and kept until all their target queues have them.

A dead letter without a route (no exchange, no binding, a cycle), or refused by a full queue, is held, on disk too, with
the reason and the names of the queues that took it, so that these do not get it twice. One commit removes it here and
adds it to its targets. parity: only the first few that cannot be sent are tried again, the others queue behind them.
RabbitMQ retries every three minutes; this broker retries as soon as a change may help.
"""

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.budget import STEPS_PER_CALL
from rabbitlike.broker.message import Message
from rabbitlike.broker.queue_settings.settings import QueueSettings
from rabbitlike.broker.queues.dead_letters.dead_lettering import Sent, report_dead_letter, send
from rabbitlike.broker.queues.dead_letters.x_death import DeadLetterOutcome, Reason
from rabbitlike.broker.queues.deferred import DeferredMessages
from rabbitlike.broker.queues.storage.log import StoredBatch
from rabbitlike.broker.states import GONE, LOGGED
from rabbitlike.storage.api import AttemptRecord

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue

log = logging.getLogger(__name__)

#: How many dead letters that cannot be sent are tried again; RabbitMQ has 32.
WINDOW: Final = 100
#: How many dead letters are sent in one turn.
STRIDE: Final = 200
#: Milliseconds between two checks for changes: while dead letters are being sent, and at most.
SHORTEST_MS: Final = 50
LONGEST_MS: Final = 1000
#: Higher than any sequence number.
_ALL: Final = 1 << 62


class HeldDeadLetter:
    """A dead letter that its queue holds."""

    __slots__ = ("dead_lettered_at_ms", "is_noted", "message", "reason", "refused", "taken")

    def __init__(self, message: Message, reason: Reason, dead_lettered_at_ms: int) -> None:
        self.message = message
        self.reason = reason
        self.dead_lettered_at_ms = dead_lettered_at_ms
        #: Names of the queues that have it already.
        self.taken: tuple[str, ...] = ()
        #: The queues that were too full for it; empty if there was no route.
        self.refused: Sequence[Queue] = ()
        #: Whether the log records, or will record, that it is a dead letter.
        self.is_noted = False

    def pack(self) -> bytes:
        """Encode what recovery needs, as short strings: the reason, and the queues that have it."""
        words = [word.encode("utf-8", "surrogateescape") for word in (self.reason.value, *self.taken)]
        return b"".join(bytes((len(word),)) + word for word in words)


def unpack(message: Message, dead_lettered_at_ms: int, death: bytes) -> HeldDeadLetter:
    words: list[str] = []
    at = 0
    while at < len(death):
        end = at + 1 + death[at]
        words.append(death[at + 1 : end].decode("utf-8", "surrogateescape"))
        at = end
    dead_letter = HeldDeadLetter(message, Reason(words[0]), dead_lettered_at_ms)
    dead_letter.taken = tuple(words[1:])
    dead_letter.is_noted = True
    return dead_letter


class HeldDeadLetters(DeferredMessages):
    """The held dead letters of one queue, in the order they were dead-lettered."""

    __slots__ = ("_generation", "_is_called", "_line", "_new", "_number", "_pause_ms", "_stuck", "_warned")

    def __init__(self, queue: "Queue") -> None:
        super().__init__(queue)
        #: Dead letters that could not be sent, and those behind them that were not tried yet.
        self._stuck: list[HeldDeadLetter] = []
        self._line: deque[HeldDeadLetter] = deque()
        #: Those that were dead-lettered in this turn.
        self._new: list[HeldDeadLetter] = []
        self._number = 0
        self._is_called = False
        self._pause_ms = SHORTEST_MS
        #: The vhost's generation at the last try; -1: try again in any case.
        self._generation = -1
        #: The problems already logged.
        self._warned: set[str] = set()

    def add(self, message: Message, reason: Reason) -> None:
        """Hold a dead letter. Its message is no longer ready or unacked, but the queue still owns it."""
        message.state = GONE
        report_dead_letter(self._queue, message, reason, DeadLetterOutcome.AT_LEAST_ONCE)
        dead_letter = HeldDeadLetter(message, reason, self._turn.now_ms)
        self._number += 1
        self.put(message, self._number)
        self._line.append(dead_letter)
        self._new.append(dead_letter)
        self._call()

    def recover(self, batch: StoredBatch, attempt: AttemptRecord, size: int) -> None:
        """Add one held when the last run ended. They come in the order in which they were dead-lettered."""
        self._number += 1
        message = self.put_unread(batch, attempt.batch_index, attempt.position, attempt.times, self._number, size)
        message.state = GONE
        self._line.append(unpack(message, attempt.due_at_ms, attempt.death))
        self._watch(self._turn.now_ms)

    def messages(self) -> list[Message]:
        """Return all of them; some may be without contents, which are then on disk only."""
        return list(self._here.values())

    def clear(self) -> list[Message]:
        queue_log = self._queue.log
        if queue_log is not None:
            for dead_letter in (*self._stuck, *self._line):
                if dead_letter.is_noted:
                    queue_log.erase(dead_letter.message)
        self._stuck = []
        self._line.clear()
        self._new = []
        self._warned.clear()
        return super().clear()

    def changed(self) -> None:
        """Try all again after a change of the queue's settings, which may have added or removed a route."""
        self._generation = -1
        self._turn.later(self.on_due)

    # Sending

    def _call(self) -> None:
        """Send later in this turn, and so in the same commit as the dead-lettering."""
        if not self._is_called:
            self._is_called = True
            self._turn.later(self._go)

    def _go(self) -> None:
        self._is_called = False
        if self._can_send():
            self._send_line()
            self._rest()
        new, self._new = self._new, []
        for dead_letter in new:
            if self.has(dead_letter.message.position):
                self._note(dead_letter)

    def on_due(self) -> None:
        if self._can_send():
            before = self.count
            self._send_stuck()
            self._send_line()
            self._pause_ms = SHORTEST_MS if self.count < before else min(2 * self._pause_ms, LONGEST_MS)
            self._rest()

    def _can_send(self) -> bool:
        if not self._queue.settings.holds_dead_letters:
            self._give_up()
        return self.count > 0

    def _send_stuck(self) -> None:
        """Try those again for which a change may help."""
        before = self.count
        generation = self._queue.vhost.generation
        is_changed, self._generation = generation != self._generation, generation
        tried, self._stuck = self._stuck, []
        for dead_letter in tried:
            is_worth_it = is_changed or _has_room(dead_letter, is_moving=self.count < before)
            if not is_worth_it or not self._try(dead_letter):
                self._stuck.append(dead_letter)

    def _send_line(self) -> None:
        left = STRIDE
        while self._line and len(self._stuck) < WINDOW and left:
            left -= 1
            dead_letter = self._line.popleft()
            if not self._try(dead_letter):
                self._stuck.append(dead_letter)
            if self._turn.is_spent(STEPS_PER_CALL):
                break

    def _rest(self) -> None:
        """Set the timer for the next try."""
        if self.count == 0:
            self.stop()
            self._pause_ms = SHORTEST_MS
            if self._warned:
                self._warned.clear()
                log.info("%s: all held dead-lettered messages have been sent", _name(self._queue))
        elif self._line and len(self._stuck) < WINDOW:
            self._watch(self._turn.now_ms)
        else:
            self._watch(self._turn.now_ms + self._pause_ms)

    def _try(self, dead_letter: HeldDeadLetter) -> bool:
        """Send it to the queues that do not have it. Return whether it is done."""
        message = dead_letter.message
        if not message.properties:
            self.read(message, _ALL, self._queue.paging.window_bytes)
            if not message.properties:
                self.leave(message)  # it stays on disk
                return True
        size = len(message.body)
        # Its own queue may be a target, and that queue's limits must not count it twice.
        self.count -= 1
        self.body_bytes -= size
        sent = send(self._queue, message, dead_letter.reason, dead_letter.dead_lettered_at_ms, dead_letter.taken)
        self.count += 1
        self.body_bytes += size
        dead_letter.taken += tuple(target.name for target in sent.taken)
        dead_letter.refused = sent.refused
        if sent.has_exchange and dead_letter.taken and not sent.refused:
            self._end(dead_letter)
            return True
        if sent.taken:
            self._note(dead_letter)
        elif not sent.refused:
            self._warn(sent)
        return False

    def _end(self, dead_letter: HeldDeadLetter) -> None:
        queue = self._queue
        queue.vhost.broker.dead_letters_confirmed += 1
        self.leave(dead_letter.message)
        queue.forget(dead_letter.message)
        if dead_letter.is_noted and queue.log is not None:
            queue.log.erase(dead_letter.message)

    def _give_up(self) -> None:
        """Delete all. parity: a change of the strategy applies to the dead letters held already."""
        queue = self._queue
        body_bytes = self.body_bytes
        messages = self.clear()
        # For messages whose contents are on disk only, body_bytes is the only known size.
        queue.persistent_bytes -= body_bytes - sum(len(message.body) for message in messages)
        for message in messages:
            queue.forget(message)
        if messages:
            log.info("%s: deleted %d held dead-lettered messages (%d bytes)", _name(queue), len(messages), body_bytes)

    def _note(self, dead_letter: HeldDeadLetter) -> None:
        """Record on disk that the message is a dead letter."""
        if dead_letter.message.logged == LOGGED and self._queue.log is not None:
            dead_letter.is_noted = True
            self._queue.log.note_dead_letter(dead_letter.message, dead_letter.dead_lettered_at_ms, dead_letter.pack())

    def _warn(self, sent: Sent) -> None:
        """Log a problem that an operator has to solve, once until all dead letters have been sent."""
        settings = self._queue.settings
        why = f"there is no exchange '{settings.dead_letter_exchange}'"
        if sent.has_exchange:
            why = f"exchange '{settings.dead_letter_exchange}' leads them to no queue that may have them"
        if why not in self._warned:
            self._warned.add(why)
            log.warning("%s: holding dead-lettered messages: %s", _name(self._queue), why)


def _has_room(dead_letter: HeldDeadLetter, *, is_moving: bool) -> bool:
    """Return whether a queue that refused it could take it now."""
    size = len(dead_letter.message.body)
    for target in dead_letter.refused:
        if is_moving and not target.has_room(1, size):
            target.make_room()  # consumers may take what was sent there just now
        if target.has_room(1, size):
            return True
    return False


def _name(queue: "Queue") -> str:
    return f"queue '{queue.name}' in vhost '{queue.vhost.name}'"


def warn_of_fallback(queue: "Queue", settings: QueueSettings) -> None:
    """Log that a queue with the strategy at-least-once cannot use it."""
    if settings.dead_letter_exchange is None:
        log.warning("%s: dead-letter strategy at-least-once has no effect without a dead-letter exchange", _name(queue))
    else:
        log.warning("%s: dead-lettering at most once: at-least-once needs overflow reject-publish", _name(queue))

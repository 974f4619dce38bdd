"""One queue under random work, against a small model that knows the order of what is ready, who holds what until when,
and what waits for its next try.

The machine drives a real broker through client ends with a fake clock. After every step whatever was delivered, counted
or buried must be what the model says. The model does not say which of several consumers with credit is served, but that
turns are fair; everything else is exact. A failing run prints the steps as a program: paste it into a test and run it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Client, Pair, loose
from tests.support.pair import Message as Content

CONNECTIONS, CHANNELS = 2, 2  # so many channels on each of so many connections
UNLIMITED = 1 << 30

AT = st.integers(0, CONNECTIONS * CHANNELS - 1)
PICK = st.integers(0, 20)
RARELY = st.sampled_from([False, False, False, True])
PRIORITY = st.none() | st.integers(0, 12)

#: The kinds of queue that are driven: their arguments.
QUEUES: dict[str, dict[str, object]] = {
    "plain": {},
    "few levels": {"x-max-priority": 2},
    "short life": {"x-message-ttl": 40},
    "drop head": {"x-max-length": 3},
    "reject publish": {"x-max-length": 3, "x-overflow": "reject-publish"},
    "single active": {"x-single-active-consumer": True},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 2},
    "retries": {
        "x-retry-initial": 10,
        "x-retry-multiplier": 3,
        "x-retry-max-delay": 50,
        "x-retry-timeout": 150,
        "x-delivery-limit": 4,
    },
    "steps": {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 10, "x-delayed-retry-max": 25},
    "deadlines": {"x-ack-timeout": 30, "x-delivery-limit": 3},
    "late retries": {"x-ack-timeout": 30, "x-retry-initial": 20, "x-message-ttl": 90},
}


@dataclass
class Message:
    """A message as the model sees it; its body on the wire is its number."""

    number: int
    level: int
    expires_at_ms: int  # 0: never
    published_at_ms: int = 0
    returns: int = 0
    due_at_ms: int = 0  # when its wait for the next try ends
    queue: int = 0  # which life of the queue it belongs to: deleting starts another

    @property
    def order(self) -> tuple[int, int]:
        return -self.level, self.number


@dataclass
class Consumer:
    tag: str
    prefetch: int
    no_ack: bool
    priority: int
    held: int = 0

    @property
    def credit(self) -> int:
        return UNLIMITED if self.no_ack or not self.prefetch else self.prefetch - self.held


@dataclass
class Held:
    """A delivery that needs an ack; `consumer` is None for basic.get."""

    message: Message
    consumer: Consumer | None
    due_at_ms: int = 0  # 0: no deadline


@dataclass
class End:
    """A channel: the client's end of it and what the model knows."""

    channel: Channel
    limit: int = 0  # prefetch of the whole channel
    last_tag: int = 0
    held: dict[int, Held] = field(default_factory=dict)
    consumers: list[Consumer] = field(default_factory=list)

    @property
    def room(self) -> int:
        """What the channel's consumers may still take together."""
        if not self.limit:
            return UNLIMITED
        return max(self.limit - sum(held.consumer is not None for held in self.held.values()), 0)


class QueueMachine(RuleBasedStateMachine):
    """Steps take plain numbers; those that pick something count round what there is."""

    def start(self, kind: str) -> None:
        self.arguments = QUEUES[kind]
        self.is_quorum = kind == "quorum"
        self.levels = int(str(self.arguments.get("x-max-priority", 9)))
        self.pair = Pair()
        self.control = self.pair.connect().channel()
        self.control.confirm()
        self.control.declare("dead")
        self.life = 0
        self.declare()
        self.published = self.confirmed = self.consumed = 0
        self.ready: list[Message] = []
        self.waiting: list[Message] = []
        self.consumers: list[Consumer] = []  # in the order they came
        self.buried: list[tuple[int, str]] = []  # since the last look
        self.clients: list[Client] = []
        self.ends: list[End] = []
        for _ in range(CONNECTIONS):
            client = self.pair.connect()
            self.clients.append(client)
            self.ends += [End(client.channel()) for _ in range(CHANNELS)]

    def declare(self) -> None:
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", **self.arguments}
        self.control.declare("q", durable=True, arguments=arguments)

    # ------------------------------------------------------------------------------------------------------ the model

    @property
    def now_ms(self) -> int:
        return self.pair.clock.now_ms()

    def served(self) -> list[tuple[End, Consumer]]:
        """The consumers that may be served at all."""
        pairs = [(end, consumer) for consumer in self.consumers for end in self.ends if consumer in end.consumers]
        return pairs[:1] if "x-single-active-consumer" in self.arguments else pairs

    def capacity(self) -> int:
        """How many messages would be taken now if they were there."""
        total = 0
        for end in self.ends:
            mine = [consumer for owner, consumer in self.served() if owner is end]
            acking = sum(max(consumer.credit, 0) for consumer in mine if not consumer.no_ack)
            total += min(acking, end.room) + UNLIMITED * any(consumer.no_ack for consumer in mine)
        return total

    def new_message(self, priority: int | None, ttl_ms: int | None) -> Message:
        level = (4 if self.is_quorum else 0) if priority is None else priority
        times = [time for time in (ttl_ms, self.arguments.get("x-message-ttl")) if isinstance(time, int)]
        expires_at_ms = self.now_ms + min(times) if times else 0
        self.published += 1
        return Message(self.published, min(level, self.levels), expires_at_ms, self.now_ms, queue=self.life)

    def held(self, message: Message, consumer: Consumer | None) -> Held:
        timeout_ms = self.arguments.get("x-ack-timeout")
        return Held(message, consumer, self.now_ms + timeout_ms if isinstance(timeout_ms, int) else 0)

    def accept(self, message: Message) -> str:
        """Put a published message in, or let it die at the door; the confirm it must get."""
        limit = self.arguments.get("x-max-length")
        waiting = self.capacity() - len(self.ready)
        if isinstance(limit, int) and "x-overflow" in self.arguments and len(self.ready) + 1 > max(limit, waiting):
            return "nack"
        if waiting <= 0 and message.expires_at_ms and message.expires_at_ms <= self.now_ms:
            self.bury(message, "expired")
            return "ack"
        self.ready.append(message)
        if waiting <= 0:
            self.trim()
        return "ack"

    def trim(self) -> None:
        limit = self.arguments.get("x-max-length")
        if not isinstance(limit, int) or "x-overflow" in self.arguments:
            return
        self.ready.sort(key=lambda message: message.order)
        while len(self.ready) > limit:
            self.bury(self.ready.pop(0), "maxlen")

    def bury(self, message: Message, reason: str) -> None:
        self.buried.append((message.number, reason))

    def expire(self) -> None:
        for message in [one for one in self.ready if one.expires_at_ms and one.expires_at_ms <= self.now_ms]:
            self.ready.remove(message)
            self.bury(message, "expired")

    def number(self, key: str, default: int | None = None) -> int | None:
        value = self.arguments.get(key, default)
        return value if isinstance(value, int) else None

    def fail(self, message: Message, is_returned: bool) -> None:
        """It comes back: for good, at once or later."""
        message.returns += 1
        has_retries = "x-retry-initial" in self.arguments
        limit = self.number("x-delivery-limit", 10 if has_retries else None)
        timeout_ms = self.number("x-retry-timeout", 10_800_000 if has_retries else None)
        if limit is not None and message.returns > limit:
            self.bury(message, "delivery_limit")
        elif message.expires_at_ms and message.expires_at_ms <= self.now_ms:
            self.bury(message, "expired")
        elif timeout_ms is not None and message.published_at_ms + timeout_ms <= self.now_ms:
            self.bury(message, "retry_timeout")
        elif delay_ms := self.delay_ms(message.returns, is_returned):
            message.due_at_ms = self.now_ms + delay_ms
            if timeout_ms is not None:
                message.due_at_ms = min(message.due_at_ms, message.published_at_ms + timeout_ms)
            if message.expires_at_ms:
                message.due_at_ms = min(message.due_at_ms, message.expires_at_ms)
            self.waiting.append(message)
        else:
            self.ready.append(message)

    def delay_ms(self, returns: int, is_returned: bool) -> int:
        initial_ms, step_ms = self.number("x-retry-initial"), self.number("x-delayed-retry-min")
        if initial_ms is not None:
            factor = self.number("x-retry-multiplier", 2) or 0
            return min(initial_ms * factor ** (returns - 1), self.number("x-retry-max-delay", 300_000) or 0)
        if step_ms is not None and not is_returned:  # of type `failed`
            return min(step_ms * returns, self.number("x-delayed-retry-max") or UNLIMITED)
        return 0

    def come_back(self) -> None:
        """What waited until now is ready, or at its end."""
        timeout_ms = self.number("x-retry-timeout")
        for message in [one for one in self.waiting if one.due_at_ms <= self.now_ms]:
            self.waiting.remove(message)
            if message.expires_at_ms and message.expires_at_ms <= self.now_ms:
                self.bury(message, "expired")
            elif timeout_ms is not None and message.published_at_ms + timeout_ms <= self.now_ms:
                self.bury(message, "retry_timeout")
            else:
                self.ready.append(message)

    def take_back(self) -> None:
        """What is held too long is taken back, and fails."""
        for end in self.ends:
            late = [tag for tag, held in end.held.items() if held.due_at_ms and held.due_at_ms <= self.now_ms]
            self.settle(end, late, "requeue")

    def part(self, at_ms: int) -> None:
        """Each channel, and those that wait, are looked at in a turn of their own. Whose is first in one millisecond is
        nobody's promise, so all but one of the channels settle what would be late just then."""
        while True:
            late = [(end, tag) for end in self.ends for tag, held in end.held.items() if held.due_at_ms == at_ms]
            if late and not any(message.due_at_ms == at_ms for message in self.waiting):
                late = [(end, tag) for end, tag in late if end is not late[0][0]]
            if not late:
                return
            end, tag = late[0]
            self.settle(end, [tag], "ack")
            end.channel.ack(tag)
            self.check_deliveries()

    def next_event_ms(self, until_ms: int) -> int:
        """When something happens by itself, or the end."""
        times = [message.due_at_ms for message in self.waiting]
        times += [message.expires_at_ms for message in self.ready if message.expires_at_ms]
        times += [held.due_at_ms for end in self.ends for held in end.held.values() if held.due_at_ms]
        return min([time for time in times if time > self.now_ms] + [until_ms])

    def settle(self, end: End, tags: list[int], outcome: str) -> None:
        """ack, reject, requeue or, by basic.nack, return these."""
        for tag in tags:
            held = end.held.pop(tag)
            message = held.message
            if held.consumer is not None:
                held.consumer.held -= 1
            if message.queue != self.life or outcome == "ack":
                continue
            if outcome == "reject":
                self.bury(message, "rejected")
                continue
            self.fail(message, outcome == "return")
        self.trim()
        self.expire()

    def forget(self, end: End) -> None:
        """The channel is gone."""
        for consumer in list(end.consumers):
            end.consumers.remove(consumer)
            self.consumers.remove(consumer)
        self.settle(end, list(end.held), "requeue")
        end.held.clear()
        end.limit = end.last_tag = 0

    # ------------------------------------------------------------------------------------------------------ publishing

    @rule(priorities=st.lists(PRIORITY, min_size=1, max_size=4), ttl_ms=st.none() | st.sampled_from([0, 10, 30, 100]))
    def publish(self, priorities: list[int | None], ttl_ms: int | None) -> None:
        """One after the other."""
        if "x-max-length" in self.arguments and "x-overflow" not in self.arguments:
            ttl_ms = None  # which of limit and time ends a requeued message that both do away with is nobody's promise
        for priority in priorities:
            message = self.new_message(priority, ttl_ms)
            outcome = self.accept(message)
            self.control.publish(
                b"%d" % message.number,
                key="q",
                priority=priority,
                expiration=None if ttl_ms is None else str(ttl_ms),
            )
            self.confirmed += 1
            assert self.control.expect_confirms() == [(outcome, self.confirmed, False)]
            self.check_deliveries()

    @precondition(lambda self: "x-max-length" not in self.arguments)
    @rule(priorities=st.lists(PRIORITY, min_size=2, max_size=6))
    def publish_in_one_read(self, priorities: list[int | None]) -> None:
        octets = b""
        for priority in priorities:
            message = self.new_message(priority, None)
            self.ready.append(message)
            body = b"%d" % message.number
            octets += frames.encode_method(commands.Basic.Publish(routing_key="q"), self.control.number)
            octets += frames.header_frame(self.control.number, len(body), frames.properties(priority=priority))
            octets += frames.body_frame(self.control.number, body)
        self.control.feed(octets)
        self.confirmed += len(priorities)
        assert self.control.expect_confirms() == [("ack", self.confirmed, True)]

    # ------------------------------------------------------------------------------------------------------- consuming

    @precondition(lambda self: len(self.consumers) < 6)
    @rule(at=AT, prefetch=st.sampled_from([1, 1, 2, 3, 0]), no_ack=RARELY, priority=st.sampled_from([0, 0, 5]))
    def consume(self, at: int, prefetch: int, no_ack: bool, priority: int) -> None:
        end = self.ends[at]
        if "x-single-active-consumer" in self.arguments:
            priority = 0
        self.consumed += 1
        consumer = Consumer(f"c{self.consumed}", prefetch, no_ack, priority)
        end.limit = 0
        end.channel.qos(prefetch)
        self.check_deliveries()  # the channel's prefetch is lifted, and others go on
        end.consumers.append(consumer)
        self.consumers.append(consumer)
        end.channel.consume("q", consumer.tag, no_ack=no_ack, arguments={"x-priority": priority})

    @precondition(lambda self: self.consumers)
    @rule(at=AT, limit=st.integers(0, 3))
    def limit_channel(self, at: int, limit: int) -> None:
        end = self.ends[at]
        if any(held.consumer is None for held in end.held.values()):
            return  # RabbitMQ counts what was got before, we do not
        if any(consumer.no_ack for consumer in end.consumers):
            return  # how many those are given depends on who is served first, which the model does not say
        end.limit = limit
        end.channel.qos(limit, is_global=True)

    @precondition(lambda self: self.consumers)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        consumer = self.consumers.pop(pick % len(self.consumers))
        (end,) = (end for end in self.ends if consumer in end.consumers)
        end.consumers.remove(consumer)
        end.channel.call(commands.Basic.Cancel(consumer_tag=consumer.tag), commands.Basic.CancelOk)

    @rule(at=AT, count=st.integers(1, 4), no_ack=RARELY)
    def get(self, at: int, count: int, no_ack: bool) -> None:
        for _ in range(count):
            self.get_one(self.ends[at], no_ack)

    def get_one(self, end: End, no_ack: bool) -> None:
        content = end.channel.get("q", no_ack=no_ack)
        self.ready.sort(key=lambda message: message.order)
        if not self.ready:
            assert content is None, f"got {content.body!r} from an empty queue"
            return
        message = self.ready.pop(0)
        assert content is not None, f"{message} was not got"
        assert isinstance(content.method, commands.Basic.GetOk)
        assert content.method.message_count == len(self.ready)
        self.check_content(end, content, message)
        if not no_ack:
            end.held[content.tag] = self.held(message, None)

    # -------------------------------------------------------------------------------------------------------- settling

    def outstanding(self) -> list[tuple[End, int]]:
        return [(end, tag) for end in self.ends for tag in sorted(end.held)]

    @precondition(lambda self: self.outstanding())
    @rule(pick=PICK, multiple=RARELY, is_reject=st.booleans())
    def requeue(self, pick: int, multiple: bool, is_reject: bool) -> None:
        self.settle_one(pick, multiple, "requeue", is_reject)

    @precondition(lambda self: self.outstanding())
    @rule(pick=PICK, multiple=RARELY, is_reject=st.booleans(), how=st.sampled_from(["ack", "ack", "reject"]))
    def finish(self, pick: int, multiple: bool, is_reject: bool, how: str) -> None:
        self.settle_one(pick, multiple, how, is_reject)

    def settle_one(self, pick: int, multiple: bool, how: str, is_reject: bool) -> None:
        outstanding = self.outstanding()
        end, tag = outstanding[pick % len(outstanding)]
        outcome = "return" if how == "requeue" and (multiple or not is_reject) else how
        self.settle(end, [one for one in sorted(end.held) if one <= tag] if multiple else [tag], outcome)
        if how == "ack":
            end.channel.ack(tag, multiple=multiple)
        elif is_reject and not multiple:
            end.channel.reject(tag, requeue=how == "requeue")
        else:
            end.channel.nack(tag, multiple=multiple, requeue=how == "requeue")

    @precondition(lambda self: self.outstanding())
    @rule(pick=PICK, how=st.sampled_from(["ack", "requeue", "reject", "recover"]))
    def settle_all(self, pick: int, how: str) -> None:
        outstanding = self.outstanding()
        end, _ = outstanding[pick % len(outstanding)]
        self.settle(end, sorted(end.held), {"recover": "requeue", "requeue": "return"}.get(how, how))
        if how == "recover":
            end.channel.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
        elif how == "ack":
            end.channel.ack(0, multiple=True)
        else:
            end.channel.nack(0, multiple=True, requeue=how == "requeue")

    # --------------------------------------------------------------------------------------------------- larger events

    @rule(ms=st.sampled_from([1, 9, 10, 25, 40, 100]))
    def advance(self, ms: int) -> None:
        """From one event to the next, so that what happens is known to the millisecond."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            event_ms = self.next_event_ms(until_ms)
            self.part(event_ms)
            self.pair.advance(event_ms - self.now_ms)
            self.come_back()
            self.take_back()
            self.expire()
            self.check_deliveries()

    @precondition(lambda self: self.outstanding())
    @rule(pick=PICK, how=st.sampled_from(["close", "drop", "unknown tag"]))
    def lose(self, pick: int, how: str) -> None:
        """A channel that holds something ends, one way or another."""
        outstanding = self.outstanding()
        end, _ = outstanding[pick % len(outstanding)]
        tag = end.last_tag + 1 + pick
        which = self.ends.index(end) // CHANNELS
        siblings = self.ends[which * CHANNELS : (which + 1) * CHANNELS]
        for gone in siblings if how == "drop" else [end]:
            self.forget(gone)
        if how == "drop":
            self.clients[which].drop()
            self.clients[which] = self.pair.connect()
            for gone in siblings:
                gone.channel = self.clients[which].channel()
            return
        if how == "close":
            end.channel.close()
        else:
            end.channel.ack(tag, multiple=pick % 2 == 0)
            end.channel.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", commands.Basic.Ack)
        end.channel.open()

    @precondition(lambda self: len(self.ready) + len(self.waiting) > 1)
    @rule(deletes=st.booleans())
    def empty(self, deletes: bool) -> None:
        """Purge the queue, or delete it and declare it anew."""
        if not deletes:
            purged = self.control.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk)
            assert purged.message_count == len(self.ready) + len(self.waiting)
            self.ready.clear()
            self.waiting.clear()
            return
        ok = self.control.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
        assert ok.message_count == len(self.ready) + len(self.waiting)
        self.ready.clear()
        self.waiting.clear()
        self.life += 1
        for end in self.ends:
            cancelled = {end.channel.expect(commands.Basic.Cancel).consumer_tag for _ in end.consumers}
            assert cancelled == {consumer.tag for consumer in end.consumers}
            end.consumers.clear()
        self.consumers.clear()
        self.declare()

    # --------------------------------------------------------------------------------------------- what must be true

    def check_content(self, end: End, content: Content, message: Message) -> None:
        assert content.body == b"%d" % message.number
        assert content.redelivered is (message.returns > 0)
        end.last_tag += 1
        assert content.tag == end.last_tag
        assert content.headers.get("x-delivery-count", 0) == message.returns

    @invariant()
    def agrees(self) -> None:
        self.check_deliveries()
        self.check_counts()
        self.check_dead_letters()

    def check_deliveries(self) -> None:
        """The first messages in order, as many as there is credit for, to those with credit, in fair turns."""
        self.ready.sort(key=lambda message: message.order)
        due = self.ready[: self.capacity()]
        del self.ready[: len(due)]
        by_number = {message.number: message for message in due}
        before = {consumer.tag: consumer.credit for consumer in self.consumers}
        allowed = {consumer.tag for _, consumer in self.served()}
        taken = dict.fromkeys(before, 0)
        for end in self.ends:
            by_tag = {consumer.tag: consumer for consumer in end.consumers}
            last = (-UNLIMITED, 0)
            room = end.room
            for content in end.channel.deliveries():
                assert isinstance(content.method, commands.Basic.Deliver)
                consumer = by_tag[content.method.consumer_tag or ""]
                assert consumer.tag in allowed
                message = by_number.pop(int(content.body), None)
                assert message is not None, f"{content.body!r} was not due, {due} were"
                assert message.order > last, f"{message} out of order"
                last = message.order
                self.check_content(end, content, message)
                taken[consumer.tag] += 1
                if not consumer.no_ack:
                    room -= 1
                    consumer.held += 1
                    end.held[content.tag] = self.held(message, consumer)
            assert room >= 0, "more than the channel's prefetch"
        assert not by_number, f"not delivered: {by_number}"
        assert all(taken[tag] <= max(before[tag], 0) for tag in taken), f"more than the prefetch: {taken} of {before}"
        self.check_turns(taken, allowed)

    def check_turns(self, taken: dict[str, int], allowed: set[str]) -> None:
        """Nobody is passed over who could have taken more than another was given beyond it."""
        free = [
            consumer
            for end in self.ends
            for consumer in end.consumers
            if not end.limit and consumer.credit > 0 and consumer.tag in allowed
        ]
        for waiting in free:
            for other in self.consumers:
                assert other.priority >= waiting.priority or not taken[other.tag], f"{other} came before {waiting}"
                if other.priority == waiting.priority:
                    assert taken[other.tag] <= taken[waiting.tag] + 1, f"{other} had more turns than {waiting}"

    def check_counts(self) -> None:
        ok = self.control.call(loose(commands.Queue.Declare, queue="q", passive=True), commands.Queue.DeclareOk)
        assert (ok.message_count, ok.consumer_count) == (len(self.ready), len(self.consumers))
        assert self.pair.broker.vhosts["/"].queues["q"].awaiting_retry_count == len(self.waiting)

    def check_dead_letters(self) -> None:
        found = []
        while (content := self.control.get("dead")) is not None:
            found.append((int(content.body), str(content.headers["x-last-death-reason"])))
        assert sorted(found) == sorted(self.buried)
        self.buried.clear()


def machine_of(kind: str) -> type[QueueMachine]:
    """The machine with one kind of queue; what it prints runs with QueueMachine itself."""

    class OneKind(QueueMachine):
        @initialize(kind=st.just(kind))
        def start(self, kind: str) -> None:
            super().start(kind)

    OneKind.__name__ = QueueMachine.__name__
    return OneKind


@pytest.mark.parametrize("kind", QUEUES)
def test_queue_agrees_with_the_model(kind: str) -> None:
    """#67 #79 #86 #87 #106 #108 #110 #113 #121 #122 #123 #125 #127 #130 F3 F4 F5 F6 F7 G6 under random work."""
    run_state_machine_as_test(
        machine_of(kind),
        settings=settings(max_examples=40, stateful_step_count=40, deadline=None, report_multiple_bugs=False),
    )

"""Very much work at once is done in slices: no turn does more than a share of it, and clients see the same as ever.

Here each look at the clock takes a tenth of a millisecond, so that a turn has time for some thousand steps. What is
counted is how much a turn does, not how long that takes.
"""

from collections.abc import Callable

import pytest
from pamqp import commands

from rabbitlike.broker.accounts.permissions import EVERYTHING
from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import make_policy
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.protocol.properties import Properties
from tests.support import frames, turns
from tests.support.bystander import bounded_memory
from tests.support.frames import encode_method
from tests.support.pair import Channel, Pair

COUNT = 8_000
#: More than a turn has time for, and far less than all.
SHARE = 2_500
TICK_NS = 100_000
#: Where the clock is read after some hundred messages.
CHUNK_NS = 1_000_000


class Sliced(Pair):
    """A pair whose clock goes on while the broker works, and what each turn of it changed."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.ch = self.connect().channel()

    def queue(self, name: str = "q") -> Queue:
        return self.broker.vhosts["/"].queues[name]

    def watch(self, count: Callable[[], int], tick_ns: int = TICK_NS) -> list[int]:
        """From now on work takes time. The list tells by how much ``count`` changed in each turn."""
        self.clock.tick_ns = tick_ns
        changes: list[int] = []
        before = count()

        def note() -> None:
            nonlocal before
            now = count()
            changes.append(abs(now - before))
            before = now

        turns.recorder.on_turn = note
        return changes


def check(changes: list[int], total: int = COUNT) -> None:
    """The work took several turns, and none did more than a share of it."""
    assert sum(changes) == total
    assert max(changes) <= SHARE


def fill(ch: Channel, count: int = COUNT, **properties: object) -> None:
    one = publish_frames(ch.number, b"m", "q", **properties)
    for at in range(0, count, 1000):
        ch.feed(one * min(1000, count - at))


def publish_frames(number: int, body: bytes, key: str, **properties: object) -> bytes:
    return (
        encode_method(commands.Basic.Publish(routing_key=key), number)
        + frames.header_frame(number, len(body), frames.properties(**properties))
        + frames.body_frame(number, body)
    )


def hold_all(pair: Sliced, **declare: object) -> Channel:
    """A consumer with everything unacked, on a connection of its own."""
    pair.ch.declare("q", **declare)
    fill(pair.ch)
    ch = pair.connect().channel()
    ch.consume("q")
    ch.client.take_all()
    assert pair.queue().unacked_count == COUNT
    return ch


@pytest.mark.parametrize("has_exchange", [False, True])
def test_messages_that_expire_together(has_exchange: bool) -> None:
    """With the queue's TTL, with and without a dead-letter exchange; each letter arrives."""
    pair = Sliced()
    arguments: dict[str, object] = {"x-message-ttl": 1000}
    if has_exchange:
        arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    pair.ch.declare("dead")
    pair.ch.declare("q", arguments=arguments)
    fill(pair.ch)
    changes = pair.watch(lambda: pair.queue().message_count)
    pair.advance(1001)
    check(changes)
    assert pair.queue("dead").message_count == (COUNT if has_exchange else 0)


def test_messages_with_a_ttl_of_their_own_expire_together() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    fill(pair.ch, expiration="1000")
    changes = pair.watch(lambda: pair.queue().message_count)
    pair.advance(1001)
    check(changes)


def test_get_behind_expired_messages() -> None:
    """Who asks meanwhile gets the first that has not expired, and waits until that is found."""
    pair = Sliced()
    pair.ch.declare("q")
    queue = pair.queue()
    fill(pair.ch, expiration="1000")
    pair.ch.publish(b"alive", key="q")
    changes = pair.watch(lambda: queue.message_count)
    # The time is over, and the timer has not gone off yet.
    pair.clock._now_ms += 1001
    message = pair.ch.get("q")
    assert message is not None
    assert message.body == b"alive"
    check(changes, COUNT + 1)
    assert pair.ch.get("q") is None


def test_consume_behind_expired_messages() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    fill(pair.ch, expiration="1000")
    pair.ch.publish(b"alive", key="q")
    changes = pair.watch(lambda: pair.queue().message_count)
    pair.clock._now_ms += 1001
    pair.ch.consume("q")
    assert pair.ch.bodies() == [b"alive"]
    check(changes, COUNT + 1)


def test_a_limit_that_is_set_while_many_wait() -> None:
    """By policy; what is published meanwhile does not make the queue longer."""
    pair = Sliced()
    pair.ch.declare("q")
    fill(pair.ch)
    changes = pair.watch(lambda: pair.queue().message_count)
    policy = make_policy("/", "few", POLICY, pattern="^q", definition={"max-length": 1})
    pair.broker.turn.begin()
    pair.broker.vhosts["/"].policies.set(policy)
    pair.broker.turn.finish()
    pair.ch.publish(b"last", key="q")
    pair.advance(0)
    assert max(changes) <= SHARE
    assert pair.ch.drain("q") == [b"last"]


@pytest.mark.parametrize("how", ["drop", "close", "channel", "recover", "nack", "reject"])
def test_very_many_unacked_go_back(how: str) -> None:
    """The client goes, or gives them back or up; the others are served meanwhile, and all is done in the end."""
    pair = Sliced()
    ch = hold_all(pair)
    changes = pair.watch(lambda: pair.queue().unacked_count, CHUNK_NS)
    client = ch.client
    if how == "drop":
        client.drop()
    elif how == "close":
        client.send(commands.Connection.Close(200, "bye", 0, 0))
        client.expect(commands.Connection.CloseOk)
    elif how == "channel":
        ch.close()
    elif how == "recover":
        ch.send(commands.Basic.Cancel(consumer_tag=pair_tag(pair)))
        ch.expect(commands.Basic.CancelOk)
        ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    else:
        ch.send(commands.Basic.Cancel(consumer_tag=pair_tag(pair)))
        ch.expect(commands.Basic.CancelOk)
        ch.nack(multiple=True, requeue=how == "nack")
    pair.settle()
    check(changes)
    assert pair.queue().message_count == (0 if how == "reject" else COUNT)


def pair_tag(pair: Sliced) -> str:
    return next(iter(pair.queue().consumers.all)).tag


def test_what_a_client_sends_after_its_nack_finds_it_done() -> None:
    """In one read: the answer to what follows a nack of very many counts all of them."""
    pair = Sliced()
    ch = hold_all(pair)
    ch.send(commands.Basic.Cancel(consumer_tag=pair_tag(pair)))
    ch.expect(commands.Basic.CancelOk)
    pair.clock.tick_ns = TICK_NS
    declare = commands.Queue.Declare(queue="q", passive=True)
    ch.feed(
        encode_method(commands.Basic.Nack(multiple=True, requeue=True), ch.number) + encode_method(declare, ch.number)
    )
    assert ch.expect(commands.Queue.DeclareOk).message_count == COUNT


def test_publishes_that_need_care() -> None:
    """They come in one read and look alike, so the reader finds all of them at once."""
    pair = Sliced()
    ch = pair.connect().channel()
    ch.declare("q")
    counters = pair.broker.vhosts["/"].counters
    changes = pair.watch(lambda: counters.publish)
    bodies = [b"%d" % number for number in range(COUNT)]
    ch.feed(b"".join(publish_frames(ch.number, body, "q", expiration="60000") for body in bodies))
    check(changes)
    pair.clock.tick_ns = 0
    ch.consume("q", no_ack=True)
    assert ch.bodies() == bodies


def test_acks_of_very_many() -> None:
    pair = Sliced()
    ch = hold_all(pair)
    changes = pair.watch(lambda: pair.queue().unacked_count, CHUNK_NS)
    ch.ack(multiple=True)
    check(changes)


def test_deadlines_that_elapse_together() -> None:
    pair = Sliced()
    hold_all(pair, arguments={"x-ack-timeout": 1000})
    queue = pair.queue()
    changes = pair.watch(lambda: queue.counters.redeliver, CHUNK_NS)
    pair.advance(1001)
    assert queue.unacked_count == COUNT
    assert 0 < max(changes) <= SHARE


def test_a_backlog_for_a_consumer_that_takes_everything() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    fill(pair.ch)
    changes = pair.watch(lambda: pair.queue().message_count)
    other = pair.connect().channel()
    other.consume("q")
    assert sum(changes) == COUNT
    assert len(other.bodies()) == COUNT


def test_consumers_of_a_queue_that_is_deleted() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    other = pair.connect().channel()
    tags = [other.consume("q", f"c{number}") for number in range(3000)]
    cancelled: list[str] = []
    changes = pair.watch(lambda: len(other.client.received()))
    pair.ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    pair.settle()
    cancelled = [other.expect(commands.Basic.Cancel).consumer_tag for _ in tags]
    assert cancelled == tags
    assert max(changes) <= SHARE


def test_bindings_of_a_queue_that_is_deleted() -> None:
    """Nothing is routed to it meanwhile, and a queue of the same name keeps its own bindings."""
    pair = Sliced()
    pair.ch.declare("q")
    pair.ch.declare_exchange("x", "topic")
    vhost = pair.broker.vhosts["/"]
    queue = pair.queue()
    for number in range(COUNT):
        vhost.bind("x", queue, f"k{number}")
    changes = pair.watch(lambda: len(vhost.exchanges["x"].bindings))
    other = pair.connect().channel()
    seen: list[object] = []
    note = turns.recorder.on_turn

    def look() -> None:
        if note is not None:
            note()
        if "q" not in vhost.queues and vhost.exchanges["x"].is_used and not seen:
            seen.append(True)
            assert vhost.route(vhost.exchanges["x"], [f"k{COUNT - 1}"], Properties(b"\x00\x00")) == []

    turns.recorder.on_turn = look
    pair.ch.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    pair.settle()
    check(changes)
    assert seen
    other.declare("q")


def test_exclusive_queues_of_a_client_that_goes() -> None:
    pair = Sliced()
    other = pair.connect().channel()
    for number in range(1000):
        other.declare(f"own{number}", exclusive=True)
    vhost = pair.broker.vhosts["/"]
    changes = pair.watch(lambda: len(vhost.queues))
    other.client.drop()
    assert sum(changes) == 1000
    assert max(changes) <= 400
    assert not vhost.queues


def delete_vhost(pair: Sliced, name: str) -> None:
    """As much of it as one turn has time for."""
    pair.broker.turn.begin()
    assert pair.broker.delete_vhost(name)
    pair.broker.turn.finish()


def test_a_vhost_that_is_deleted() -> None:
    """Nobody finds it meanwhile."""
    pair = Sliced()
    broker = pair.broker
    vhost = broker.add_vhost("v")
    broker.set_permission("guest", "v", EVERYTHING)
    for number in range(1000):
        vhost.declare_queue(f"q{number}", durable=True)
    vhost.declare_exchange("x", "topic")
    for number in range(COUNT):
        vhost.bind("x", vhost.queues["q0"], f"k{number}")
        vhost.bind("amq.fanout", vhost.exchanges["x"], f"k{number}")
    clients = [pair.connect(vhost="v") for _ in range(100)]

    bound = [vhost.exchanges["x"], vhost.exchanges["amq.fanout"]]
    changes = pair.watch(lambda: len(vhost.queues) + sum(len(exchange.bindings) for exchange in bound))
    delete_vhost(pair, "v")
    assert "v" in broker.deletions
    assert "v" not in broker.vhosts
    pair.settle()
    assert sum(changes) == 1000 + 2 * COUNT
    assert max(changes) <= SHARE
    assert not broker.deletions
    for client in clients:
        client.expect(commands.Connection.Close)


def test_a_vhost_of_the_same_name_is_made_while_one_is_deleted() -> None:
    """Nothing that is still done to the old one befalls the new one."""
    pair = Sliced()
    broker = pair.broker
    old = broker.add_vhost("v")
    for number in range(1000):
        old.declare_queue(f"q{number}", durable=True)
    pair.watch(lambda: len(old.queues))
    delete_vhost(pair, "v")
    assert old.queues
    new = broker.add_vhost("v")
    assert not old.queues
    new.declare_queue("q999", durable=True)
    pair.settle()
    assert list(broker.vhosts["v"].queues) == ["q999"]


def test_a_purge_of_very_many() -> None:
    pair = Sliced()
    pair.ch.declare("q")
    fill(pair.ch, 12_000)
    pair.clock.tick_ns = TICK_NS
    assert pair.ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 12_000
    assert pair.ch.get("q") is None


# One large message


MIB = 1024 * 1024


def publish_large(ch: Channel, body: bytes, key: str = "q") -> None:
    step = ch.client.frame_max - 8
    ch.send(commands.Basic.Publish(routing_key=key))
    ch.feed(frames.header_frame(ch.number, len(body), frames.properties()))
    for at in range(0, len(body), step):
        ch.feed(frames.body_frame(ch.number, body[at : at + step]))


def large_body(size: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4)) + b"end"


@pytest.mark.parametrize("way", ["get", "consume", "return"])
def test_a_large_body_is_encoded_as_the_socket_takes_it(way: str) -> None:
    """And never as a whole in the out-buffer. What is answered behind it comes behind it."""
    pair = Sliced()
    ch = pair.connect().channel()
    body = large_body(5 * MIB)
    ch.declare("q")
    connection = ch.client.wire.connection
    assert connection is not None
    if way == "return":
        ch.send(commands.Basic.Publish(routing_key="nowhere", mandatory=True))
        ch.feed(frames.header_frame(ch.number, len(body), frames.properties()))
        for at in range(0, len(body), 100_000):
            ch.feed(frames.body_frame(ch.number, body[at : at + 100_000]))
        assert ch.expect_message(commands.Basic.Return).body == body
    else:
        publish_large(ch, body)
        publish_large(ch, body[::-1])
        if way == "get":
            ch.feed(2 * encode_method(commands.Basic.Get(queue="q", no_ack=True), ch.number))
            first, second = (ch.expect_message(commands.Basic.GetOk).body for _ in range(2))
        else:
            ch.consume("q", no_ack=True)
            first, second = ch.bodies()
        assert first == body
        assert second == body[::-1]
    assert len(connection.outlet.data) < MIB
    assert connection.send_oct > len(body)
    assert ch.get("q") is None


def test_a_large_body_is_gathered_without_a_copy() -> None:
    pair = Sliced()
    body = large_body(48 * MIB)
    pair.ch.declare("q")
    with bounded_memory(64 * MIB):
        publish_large(pair.ch, body)
    message = pair.queue().fetch()
    assert message is not None
    assert message.body == body

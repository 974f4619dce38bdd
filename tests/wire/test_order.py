"""Commands in one write: each finds everything before it done, deliveries included. Nothing here depends on where reads
or turns end."""

from collections import Counter

import pytest
from pamqp import base, commands, header

from rabbitlike.protocol.methods import spec_name
from tests.support import frames
from tests.support.frames import loose
from tests.support.pair import Channel, Client, Cut, Pair, bytewise, whole


@pytest.fixture(params=[whole, bytewise], ids=["one read", "octet by octet"])
def pair(request: pytest.FixtureRequest) -> Pair:
    cut: Cut = request.param
    return Pair(cut=cut)


def publish(queue: str = "q", count: int = 1, body: bytes = b"m", channel: int = 1) -> bytes:
    method = loose(commands.Basic.Publish, exchange="", routing_key=queue)
    one = (
        frames.encode_method(method, channel)
        + frames.header_frame(channel, len(body), frames.properties())
        + frames.body_frame(channel, body)
    )
    return one * count


def say(method: type[base.Frame], channel: int = 1, **fields: object) -> bytes:
    return frames.encode_method(loose(method, **fields), channel)


def said(client: Client) -> list[str]:
    """What the broker answered, in order: deliveries by their consumer, everything else by its name."""
    told = []
    for item in client.take_all():
        if isinstance(item.frame, commands.Basic.Deliver):
            told.append(f"{item.frame.consumer_tag}{' again' * bool(item.frame.redelivered)}")
        elif isinstance(item.frame, base.Frame) and not isinstance(item.frame, header.ContentHeader):
            told.append(spec_name(item.frame))
    return told


def ready(pair: Pair, queue: str = "q") -> int:
    """Messages that are ready, asked by somebody else."""
    return pair.connect().channel().declare(queue, passive=True).message_count or 0


def filled(pair: Pair, count: int) -> Channel:
    ch = pair.connect().channel()
    ch.declare("q")
    ch.feed(publish(count=count))
    return ch


# ------------------------------------------------------------------------------------------ with deliveries before it


def test_cancel_after_publishes(pair: Pair) -> None:
    ch = filled(pair, 0)
    ch.consume("q", "low")
    ch.consume("q", "high", arguments={"x-priority": 10})
    ch.feed(publish(count=10) + say(commands.Basic.Cancel, consumer_tag="high"))
    assert said(ch.client) == ["high"] * 10 + ["basic.cancel-ok"]


def test_cancel_after_acks(pair: Pair) -> None:
    ch = filled(pair, 20)
    ch.qos(5)
    ch.consume("q", "c")
    assert said(ch.client) == ["c"] * 5
    acks = say(commands.Basic.Ack, delivery_tag=1) + say(commands.Basic.Ack, delivery_tag=2)
    ch.feed(acks + say(commands.Basic.Cancel, consumer_tag="c"))
    assert said(ch.client) == ["c", "c", "basic.cancel-ok"]


def test_get_after_publish(pair: Pair) -> None:
    ch = filled(pair, 0)
    ch.consume("q", "idle", no_ack=True)
    ch.feed(publish() + say(commands.Basic.Get, queue="q", no_ack=True))
    assert sorted(said(ch.client)) == ["basic.get-empty", "idle"]


def test_get_after_consume(pair: Pair) -> None:
    ch = filled(pair, 3)
    ch.feed(say(commands.Basic.Consume, queue="q", consumer_tag="c") + say(commands.Basic.Get, queue="q"))
    assert said(ch.client) == ["basic.consume-ok", "c", "c", "c", "basic.get-empty"]


def test_get_after_requeue(pair: Pair) -> None:
    ch = filled(pair, 1)
    assert ch.get("q", no_ack=False)
    ch.consume("q", "c", no_ack=True)
    ch.feed(say(commands.Basic.Reject, delivery_tag=1, requeue=True) + say(commands.Basic.Get, queue="q"))
    assert sorted(said(ch.client)) == ["basic.get-empty", "c again"]


@pytest.mark.parametrize("settle", [commands.Basic.Nack, commands.Basic.Reject])
def test_get_after_a_dead_letter(pair: Pair, settle: type[base.Frame]) -> None:
    ch = filled(pair, 0)
    ch.declare("source", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.feed(publish("source"))
    assert ch.get("source", no_ack=False)
    ch.feed(say(settle, delivery_tag=1, requeue=False) + say(commands.Basic.Get, queue="q", no_ack=True))
    assert said(ch.client) == ["basic.get-ok"]


def test_get_after_a_dead_letter_that_is_consumed(pair: Pair) -> None:
    """The dead letter goes to the consumer of its queue before anybody fetches it."""
    ch = filled(pair, 0)
    ch.declare("source", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.consume("q", "c", no_ack=True)
    ch.feed(publish("source", 3))
    for _ in range(3):
        ch.get("source", no_ack=False)
    nacks = say(commands.Basic.Nack, delivery_tag=3, multiple=True, requeue=False)
    ch.feed(nacks + say(commands.Basic.Get, queue="q", no_ack=True))
    assert sorted(said(ch.client)) == ["basic.get-empty", "c", "c", "c"]


def test_counts_after_publishes(pair: Pair) -> None:
    ch = filled(pair, 0)
    ch.consume("q", "c")
    ch.feed(publish(count=2) + say(commands.Queue.Declare, queue="q", passive=True))
    answers = [item.frame for item in ch.client.take_all() if isinstance(item.frame, commands.Queue.DeclareOk)]
    assert [(ok.message_count, ok.consumer_count) for ok in answers] == [(0, 1)]


def test_purge_after_publishes(pair: Pair) -> None:
    ch = filled(pair, 0)
    ch.consume("q", "c")
    ch.feed(publish(count=3) + say(commands.Queue.Purge, queue="q"))
    purged = [
        item.frame.message_count for item in ch.client.received() if isinstance(item.frame, commands.Queue.PurgeOk)
    ]
    assert purged == [0]
    assert Counter(said(ch.client)) == {"c": 3, "queue.purge-ok": 1}


def test_delete_if_empty_after_publishes(pair: Pair) -> None:
    ch = filled(pair, 0)
    ch.consume("q", "c")
    ch.feed(publish() + say(commands.Queue.Delete, queue="q", if_empty=True))
    assert Counter(said(ch.client)) == {"c": 1, "queue.delete-ok": 1, "basic.cancel": 1}


def test_another_consumer_after_the_first(pair: Pair) -> None:
    """The first has taken all that was ready before the second is there."""
    ch = filled(pair, 4)
    ch.feed(
        say(commands.Basic.Consume, queue="q", consumer_tag="a")
        + say(commands.Basic.Consume, queue="q", consumer_tag="b")
    )
    assert said(ch.client) == ["basic.consume-ok", "a", "a", "a", "a", "basic.consume-ok"]


def test_more_prefetch_and_cancel(pair: Pair) -> None:
    ch = filled(pair, 9)
    ch.qos(1, is_global=True)
    ch.consume("q", "c")
    ch.feed(say(commands.Basic.Qos, prefetch_count=3, global_=True) + say(commands.Basic.Cancel, consumer_tag="c"))
    assert said(ch.client) == ["c", "basic.qos-ok", "c", "c", "basic.cancel-ok"]


@pytest.mark.parametrize("number", [0, 1], ids=["connection", "channel"])
def test_close_after_publishes(pair: Pair, number: int) -> None:
    """What its consumer was sent before counts as delivered."""
    ch = filled(pair, 0)
    ch.consume("q", "c")
    close = commands.Channel.Close if number else commands.Connection.Close
    ch.feed(publish(count=2) + say(close, number, reply_code=200, reply_text="", class_id=0, method_id=0))
    assert said(ch.client) == ["c", "c", f"{'channel' if number else 'connection'}.close-ok"]
    again = pair.connect().channel().get("q")
    assert again is not None
    assert again.redelivered


def test_recover_after_publishes(pair: Pair) -> None:
    """Only what was sent before is sent again: nothing of this is."""
    ch = filled(pair, 0)
    ch.consume("q", "c")
    ch.feed(publish(count=2) + say(commands.Basic.Recover, requeue=True))
    assert Counter(said(ch.client)) >= Counter({"basic.recover-ok": 1, "c": 2})


# --------------------------------------------------------------------------------------------------- all that was ready


def test_many_before_a_cancel(pair: Pair) -> None:
    """More than one turn has time for."""
    pair.slice()
    ch = filled(pair, 0)
    other = pair.connect().channel()
    other.consume("q", "c")
    ch.feed(publish(count=200) + say(commands.Queue.Purge, queue="q") + publish(count=1))
    assert said(other.client) == ["c"] * 201
    assert said(ch.client) == ["queue.purge-ok"]


def test_dead_letters_of_many_turns_before_a_get(pair: Pair) -> None:
    pair.slice()
    ch = filled(pair, 0)
    ch.declare("source", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    other = pair.connect().channel()
    other.consume("q", "c", no_ack=True)
    ch.feed(publish("source", 50))
    for _ in range(50):
        ch.get("source", no_ack=False)
    nacks = b"".join(say(commands.Basic.Nack, delivery_tag=tag, requeue=False) for tag in range(1, 51))
    ch.feed(nacks + say(commands.Basic.Get, queue="q", no_ack=True))
    assert said(ch.client) == ["basic.get-empty"]
    assert said(other.client) == ["c"] * 50


def test_a_command_does_not_wait_for_others(pair: Pair) -> None:
    """It waits for what was ready, not for what comes while it waits."""
    pair.slice()
    ch = filled(pair, 0)
    other = pair.connect().channel()
    other.consume("q", "c", no_ack=True)
    flood = pair.connect().channel()
    flood.client.wire.inbox += [publish(count=3, channel=flood.number) for _ in range(100)]
    ch.feed(publish(count=5) + say(commands.Queue.Declare, queue="q", passive=True))
    assert said(ch.client) == ["queue.declare-ok"]
    assert said(other.client) == ["c"] * 305

"""Prefetch: per consumer, per channel, both at once, and what cannot be asked for."""

import pytest
from pamqp import commands

from tests.support.pair import Channel, Pair


def filled(ch: Channel, queue: str = "q", messages: int = 10) -> None:
    ch.declare(queue)
    for n in range(messages):
        ch.publish(b"%d" % n, key=queue)


def consumers(ch: Channel) -> list[str]:
    """The consumer tags of what was delivered, in order."""
    return [
        message.method.consumer_tag or ""
        for message in ch.deliveries()
        if isinstance(message.method, commands.Basic.Deliver)
    ]


def served(ch: Channel, count: int) -> dict[str, int]:
    """How many of so many deliveries each consumer had, when each is acked before the next is looked at."""
    had: dict[str, int] = {}
    for _ in range(count):
        message = ch.expect_message()
        assert isinstance(message.method, commands.Basic.Deliver)
        tag = message.method.consumer_tag or ""
        had[tag] = had.get(tag, 0) + 1
        ch.ack(message.tag)
    return had


def test_prefetch_size_is_not_implemented() -> None:
    """#120 540 with the size asked for, closing the connection."""
    client = Pair().connect()
    client.channel().send(commands.Basic.Qos(prefetch_size=1024, prefetch_count=1))
    client.expect_close(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1024)", commands.Basic.Qos)


def test_consumer_gets_as_many_as_it_may_hold() -> None:
    """#121 prefetch 3: three at first, one more for every ack."""
    ch = Pair().connect().channel()
    filled(ch)
    ch.qos(3)
    ch.consume("q")
    held = ch.deliveries()
    assert [message.body for message in held] == [b"0", b"1", b"2"]
    ch.ack(held[1].tag)
    assert ch.bodies() == [b"3"]
    ch.nack(held[0].tag, requeue=False)
    assert ch.bodies() == [b"4"]
    ch.reject(held[2].tag, requeue=False)
    assert ch.bodies() == [b"5"]


def test_zero_is_unlimited() -> None:
    """#121 prefetch 0, said or not said."""
    client = Pair().connect()
    said, unsaid = client.channel(), client.channel()
    said.qos(2)
    said.qos(0)
    filled(said, "q")
    filled(unsaid, "r")
    said.consume("q")
    unsaid.consume("r")
    assert len(said.deliveries()) == 10
    assert len(unsaid.deliveries()) == 10


def test_each_consumer_has_its_own_prefetch() -> None:
    """#121 two consumers of one channel hold two each."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.qos(2)
    ch.consume("q", "a")
    ch.consume("q", "b")
    filled(ch)
    assert sorted(consumers(ch)) == ["a", "a", "b", "b"]


def test_qos_is_for_consumers_to_come() -> None:
    """#121 a consumer keeps the prefetch it was started with."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.declare("r")
    ch.qos(1)
    ch.consume("q", "old")
    ch.qos(3)
    filled(ch, "q")
    assert consumers(ch) == ["old"]
    ch.consume("r", "new")
    filled(ch, "r")
    assert consumers(ch) == ["new"] * 3


def test_qos_is_per_channel() -> None:
    """#121 another channel of the connection is not touched."""
    client = Pair().connect()
    limited, free = client.channel(), client.channel()
    filled(limited)
    limited.qos(1)
    free.consume("q")
    assert len(free.deliveries()) == 10


def test_global_prefetch_is_shared() -> None:
    """#122 global=true: the consumers of the channel hold so many together, whichever queue they read."""
    ch = Pair().connect().channel()
    ch.qos(3, is_global=True)
    ch.declare("q")
    ch.declare("r")
    ch.consume("q", "a")
    ch.consume("r", "b")
    for key in ("q", "q", "r", "r", "r", "r", "r"):
        ch.publish(b"m", key=key)
    held = ch.deliveries()
    assert [message.routing_key for message in held] == ["q", "q", "r"]
    ch.ack(held[0].tag)
    assert consumers(ch) == ["b"]
    ch.ack(held[1].tag)
    ch.ack(held[2].tag)
    assert consumers(ch) == ["b", "b"]


def test_global_prefetch_wakes_every_queue() -> None:
    """#122 credit freed on one queue serves another queue's consumer of the same channel."""
    ch = Pair().connect().channel()
    ch.qos(1, is_global=True)
    ch.declare("q")
    ch.declare("r")
    ch.consume("q", "a")
    ch.consume("r", "b")
    filled(ch, "q", 1)
    first = ch.expect_message()
    filled(ch, "r", 1)
    ch.expect_nothing()
    ch.ack(first.tag)
    assert consumers(ch) == ["b"]


@pytest.mark.parametrize("shared", [1, 2, 10])
def test_global_prefetch_is_fair_to_queues(shared: int) -> None:
    """#122 three queues of 100, one consumer each: each has a third of what was consumed."""
    client = Pair().connect()
    ch = client.channel()
    ch.qos(shared, is_global=True)
    for queue in ("a", "b", "c"):
        ch.declare(queue)
        ch.consume(queue, queue)
    publisher = client.channel()
    for queue in ("a", "b", "c"):
        filled(publisher, queue, 100)
    assert served(ch, 90) == {"a": 30, "b": 30, "c": 30}


@pytest.mark.parametrize("shared", [1, 2, 10])
def test_global_prefetch_is_fair_to_consumers(shared: int) -> None:
    """#122 two consumers of one queue: each has half."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.qos(shared, is_global=True)
    ch.consume("q", "a")
    ch.consume("q", "b")
    filled(client.channel(), "q", 100)
    assert served(ch, 60) == {"a": 30, "b": 30}


@pytest.mark.parametrize(("own", "shared", "held"), [(2, 3, 3), (1, 5, 2), (5, 4, 4)])
def test_both_scopes_apply(own: int, shared: int, held: int) -> None:
    """#122 a channel budget beside the per-consumer one: no consumer beyond its own, the channel not beyond its own."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.qos(own)
    ch.qos(shared, is_global=True)
    ch.consume("q", "a")
    ch.consume("q", "b")
    filled(ch)
    got = consumers(ch)
    assert len(got) == held
    assert max(got.count("a"), got.count("b")) <= own


def test_global_prefetch_counts_what_is_already_held() -> None:
    """#122 set while messages are out: they count, and nothing more comes until there is room."""
    client = Pair().connect()
    ch, publisher = client.channel(), client.channel()
    filled(ch, "q", 4)
    ch.consume("q")
    held = ch.deliveries()
    assert len(held) == 4
    ch.qos(3, is_global=True)
    filled(publisher, "q", 3)
    ch.expect_nothing()
    ch.ack(held[0].tag)
    ch.expect_nothing()
    ch.ack(held[1].tag)
    assert len(ch.deliveries()) == 1


def test_raising_the_global_prefetch_delivers_at_once() -> None:
    """#122 a larger budget, or none, releases what waits."""
    ch = Pair().connect().channel()
    filled(ch)
    ch.qos(1, is_global=True)
    ch.consume("q")
    assert len(ch.deliveries()) == 1
    ch.qos(4, is_global=True)
    assert len(ch.deliveries()) == 3
    ch.qos(0, is_global=True)
    assert len(ch.deliveries()) == 6


def test_cancelled_consumers_deliveries_still_count_for_the_channel() -> None:
    """#122 #114 what a cancelled consumer left unacked holds its part of the channel's budget."""
    ch = Pair().connect().channel()
    filled(ch)
    ch.qos(2, is_global=True)
    ch.consume("q", "a")
    held = ch.deliveries()
    assert len(held) == 2
    ch.call(commands.Basic.Cancel(consumer_tag="a"), commands.Basic.CancelOk)
    ch.consume("q", "b")
    ch.expect_nothing()
    ch.ack(held[0].tag)
    assert consumers(ch) == ["b"]


def test_default_prefetch_is_a_setting() -> None:
    """#121 channels that set none have the configured one, and may lift it."""
    client = Pair(default_prefetch=2).connect()
    plain, lifted = client.channel(), client.channel()
    filled(plain)
    plain.consume("q", "c")
    assert len(plain.deliveries()) == 2
    lifted.qos(0)
    lifted.consume("q", "c")
    assert len(lifted.deliveries()) == 8


def test_prefetch_of_consumers_lifts_that_of_the_channel() -> None:
    """#121 #122 global=false is said to consumers to come, and ends the channel's own budget."""
    ch = Pair().connect().channel()
    filled(ch)
    ch.qos(2, is_global=True)
    ch.consume("q", "a")
    assert len(ch.deliveries()) == 2
    ch.qos(1)
    assert len(ch.deliveries()) == 8


def test_who_need_not_ack_waits_for_its_channel() -> None:
    """#118 #122 without acks there is no prefetch of one's own, but nothing comes while the channel is full."""
    ch = Pair().connect().channel()
    filled(ch, "held", 1)
    ch.declare("free")
    ch.consume("free", "free", no_ack=True)
    ch.qos(1, is_global=True)
    ch.consume("held", "holds")
    (held,) = ch.deliveries()
    filled(ch, "free", 3)
    ch.expect_nothing()
    ch.ack(held.tag)
    assert consumers(ch) == ["free"] * 3

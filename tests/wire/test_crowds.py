"""Thousands of channels and consumers of one client: none may cost what all of them do, nor keep others waiting."""

import pytest
from pamqp import commands

from tests.support.bystander import MIB, Bystander, bounded_memory, bounded_time
from tests.support.frames import body_frame, encode_method, header_frame, publish_frame
from tests.support.pair import Client, Pair

MANY = 30_000


def consume_often(client: Client, channel: int, queue: str) -> None:
    for start in range(0, MANY, 1000):
        client.feed(
            b"".join(
                encode_method(commands.Basic.Consume(queue=queue, consumer_tag=str(n), nowait=True), channel)
                for n in range(start, start + 1000)
            )
        )


@pytest.mark.parametrize("end", ["cancelled", "cancelled backwards", "channel closed", "queue deleted"])
@pytest.mark.parametrize("arguments", [{}, {"x-single-active-consumer": True}], ids=["shared", "single active"])
def test_thousands_of_consumers_that_leave(
    pair: Pair, bystander: Bystander, end: str, arguments: dict[str, object]
) -> None:
    """#125 #127 One leaves as quickly among thousands as among two: others must not wait for it."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q", arguments=arguments)
    consume_often(client, 1, "q")
    tags = [str(n) for n in range(MANY)]
    if end == "cancelled backwards":
        tags.reverse()
    leaving = b"".join(
        encode_method(commands.Basic.Cancel(consumer_tag=tag, nowait=True), 1) for tag in tags[: MANY - 1]
    )
    pair.clock.tick_ns = (
        100_000  # work takes time here: a read of thousands is handled in several turns, as it is served
    )
    with bounded_time(3):
        if end == "channel closed":
            ch.close()
        elif end == "queue deleted":
            ch.send(commands.Queue.Delete(queue="q", nowait=True))
        else:
            client.feed(leaving)
    client.take_all()
    if end.startswith("cancelled"):
        ch.publish(b"to the last one", key="q")
        assert ch.expect_message().method.consumer_tag == tags[MANY - 1]  # type: ignore[attr-defined]
    bystander.expect_unharmed()


def test_thousands_of_consumers_that_share_a_prefetch(pair: Pair, bystander: Bystander) -> None:
    """#122 An ack on a channel that is not full wakes nobody."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("idle")
    ch.declare("q")
    ch.qos(MANY, is_global=True)
    consume_often(client, 1, "idle")
    ch.consume("q", "busy")
    one = publish_frame(1) + header_frame(1, 1) + body_frame(1, b"m")
    client.feed(one * 5000)
    assert len(ch.deliveries()) == 5000
    acks = b"".join(encode_method(commands.Basic.Ack(tag), 1) for tag in range(1, 5001))
    with bounded_time(0.5):
        client.feed(acks)
    bystander.expect_unharmed()


def test_thousands_of_consumers_that_are_full_together(pair: Pair, bystander: Bystander) -> None:
    """#122 A message that none of them can take costs one look at each, not one move of all for each."""
    client = pair.connect()
    ch = client.channel(1)
    ch.declare("q")
    ch.qos(1, is_global=True)
    consume_often(client, 1, "q")
    for _ in range(21):
        ch.publish(b"m", key="q")
    with bounded_time(1):
        for tag in range(1, 21):
            assert ch.expect_message().tag == tag
            client.expect_nothing()
            ch.ack(tag)
    bystander.expect_unharmed()


def test_addresses_on_every_channel(pair: Pair, bystander: Bystander) -> None:
    """#60 What each channel remembers of where it published is little when there are many channels."""
    client = pair.connect()
    numbers = range(1, 201)
    for number in numbers:
        client.feed(encode_method(commands.Channel.Open(), number))
    client.take_all()
    with bounded_memory(8 * MIB):
        for number in numbers:
            empty = header_frame(number, 0)
            client.feed(b"".join(publish_frame(number, f"{n}.{'k' * 200}") + empty for n in range(200)))
    client.expect_nothing()
    bystander.expect_unharmed()

"""What a delivered message looks like: its tag, its consumer, where it came from, and basic.get."""

import pytest
from pamqp import commands

from tests.support import frames
from tests.support.pair import Channel, Message, Pair, loose


def fetch(ch: Channel, queue: str = "q", *, no_ack: bool = False) -> Message:
    message = ch.get(queue, no_ack=no_ack)
    assert message is not None
    return message


def left(message: Message) -> int:
    """message-count of a get-ok."""
    assert isinstance(message.method, commands.Basic.GetOk)
    return message.method.message_count or 0


# ------------------------------------------------------------------------------------------------------------- tags


def test_tags_are_shared_by_deliver_and_get() -> None:
    """#108 one row per channel from 1, whoever asks, and no-ack deliveries use tags too."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.declare("r")
    for n in range(6):
        ch.publish(b"%d" % n, key="q" if n < 4 else "r")
    tags = [fetch(ch, no_ack=True).tag, fetch(ch).tag]
    ch.consume("q", "c", no_ack=True)
    tags += [message.tag for message in ch.deliveries()]
    tags.append(fetch(ch, "r", no_ack=True).tag)
    ch.consume("r", "d")
    tags += [message.tag for message in ch.deliveries()]
    assert tags == [1, 2, 3, 4, 5, 6]


def test_tags_are_per_channel() -> None:
    """#108 every channel starts at 1, also the next one of the same number."""
    client = Pair().connect()
    one, two = client.channel(), client.channel()
    one.declare("q")
    for body in (b"1", b"2", b"3", b"4"):
        one.publish(body, key="q")
    assert fetch(one, no_ack=True).tag == 1
    assert fetch(one, no_ack=True).tag == 2
    assert fetch(two, no_ack=True).tag == 1
    one.close()
    one.open()
    assert fetch(one, no_ack=True).tag == 1


def test_get_of_nothing_uses_no_tag() -> None:
    """#108 only messages are numbered."""
    ch = Pair().connect().channel()
    ch.declare("q")
    assert ch.get("q") is None
    ch.publish(b"m", key="q")
    assert fetch(ch).tag == 1


# --------------------------------------------------------------------------------------------------------- contents


def test_deliver_tells_where_it_came_from() -> None:
    """#108 consumer tag, exchange and routing key of the publish; first time not redelivered."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.topic", "a.#")
    ch.consume("q", "mine")
    ch.publish(b"body", "amq.topic", "a.b.c", content_type="text/plain")
    message = ch.expect_message()
    assert isinstance(message.method, commands.Basic.Deliver)
    assert message.method.consumer_tag == "mine"
    assert (message.exchange, message.routing_key, message.redelivered) == ("amq.topic", "a.b.c", False)
    assert (message.body, message.properties.content_type) == (b"body", "text/plain")


def test_get_ok_tells_where_it_came_from() -> None:
    """#119 the same for get-ok; the default exchange is the empty name."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"body", key="q")
    message = fetch(ch)
    assert (message.exchange, message.routing_key, message.redelivered) == ("", "q", False)


def test_empty_body_has_no_body_frame() -> None:
    """#12 #108 a message without a body is complete with its header."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", no_ack=True)
    ch.publish(b"", key="q")
    message = ch.expect_message()
    assert (message.body, message.bodies) == (b"", 0)
    ch.expect_nothing()


def test_large_body_is_cut_to_the_consumers_frame_max() -> None:
    """#15 #108 each reader gets frames as it negotiated them."""
    pair = Pair()
    small, large = pair.connect(frame_max=4096).channel(), pair.connect().channel()
    body = bytes(range(256)) * 64
    for ch in (small, large):
        queue = str(ch.declare("", exclusive=True).queue)
        ch.bind(queue, "amq.fanout")
        ch.consume(queue, no_ack=True)
    large.publish(body, "amq.fanout")
    got_small, got_large = small.expect_message(), large.expect_message()
    assert (got_small.body, got_small.bodies) == (body, 5)
    assert (got_large.body, got_large.bodies) == (body, 1)


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("in_one_read", [True, False])
def test_each_message_stands_for_itself(in_one_read: bool, repeats: int) -> None:
    """#108 runs of messages, each run unlike the one before in one thing: nothing of the last one sticks."""
    client = Pair().connect(frame_max=4096)
    ch, publisher = client.channel(), client.channel()
    for queue in ("q", "r"):
        ch.declare(queue)
        ch.consume(queue, f"consumer of {queue}", no_ack=True)
    ch.bind("q", "amq.topic", "#")
    plain, other = frames.properties(message_id="1"), frames.properties(message_id="2")
    kinds = [
        ("", "q", plain, b"9"),
        ("", "q", plain, b"10"),  # another size
        ("", "q", plain, b"11"),  # another body
        ("", "q", other, b"11"),  # other properties of the same size
        ("", "q", b"\x00\x00", b"11"),  # properties of another size
        ("", "r", b"\x00\x00", b"11"),  # another consumer
        ("amq.topic", "q", b"\x00\x00", b"11"),  # another exchange
        ("amq.topic", "r", b"\x00\x00", b"11"),  # another key of the same size
        ("amq.topic", "rr", b"\x00\x00", b"11"),  # another size of key
        ("amq.topic", "rr", b"\x00\x00", b""),  # no body
        ("amq.topic", "rr", b"\x00\x00", b"x" * 5000),  # two frames of body
        ("amq.topic", "rr", b"\x00\x00", b"y" * 5000),
        ("", "q", plain, b"9"),  # the first again
    ]
    row = [message for message in kinds for _ in range(repeats)]
    reads = [_publish(publisher.number, *message) for message in row]
    for data in [b"".join(reads)] if in_one_read else reads:
        publisher.feed(data)
    got = sorted(ch.deliveries(), key=lambda message: message.tag)
    assert [message.tag for message in got] == list(range(1, len(row) + 1))
    told = [(one.exchange, one.routing_key, one.raw_properties, one.body) for one in got]
    assert sorted(told) == sorted(row)
    of_q = [one for one in told if (one[0], one[1]) != ("", "r")]
    assert of_q == [message for message in row if message[:2] != ("", "r")]
    for one in got:
        assert isinstance(one.method, commands.Basic.Deliver)
        assert one.method.consumer_tag == f"consumer of {'r' if (one.exchange, one.routing_key) == ('', 'r') else 'q'}"


def _publish(channel: int, exchange: str, key: str, properties: bytes, body: bytes) -> bytes:
    step = 4096 - 8
    parts = [body[at : at + step] for at in range(0, len(body), step)]
    return (
        frames.encode_method(commands.Basic.Publish(exchange=exchange, routing_key=key), channel)
        + frames.header_frame(channel, len(body), properties)
        + b"".join(frames.body_frame(channel, part) for part in parts)
    )


def test_redelivery_among_first_deliveries() -> None:
    """#108 #113 the flag follows the message, not its neighbours."""
    client = Pair().connect()
    ch, holder = client.channel(), client.channel()
    ch.declare("q")
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    held = [fetch(holder), fetch(holder)]
    holder.nack(held[1].tag, requeue=True)
    ch.consume("q", no_ack=True)
    ch.publish(b"4", key="q")
    holder.nack(held[0].tag, requeue=True)
    ch.publish(b"5", key="q")
    assert [(one.body, one.redelivered) for one in ch.deliveries()] == [
        (b"2", True),
        (b"3", False),
        (b"4", False),
        (b"1", True),
        (b"5", False),
    ]


# ------------------------------------------------------------------------------------------------------- consume-ok


def test_consume_ok_stands_before_the_first_delivery() -> None:
    """#116 with messages waiting: consume-ok, then deliver."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    ch.send(commands.Basic.Consume(queue="q", consumer_tag="c"))
    assert ch.expect(commands.Basic.ConsumeOk).consumer_tag == "c"
    assert ch.bodies() == [b"1", b"2"]


def test_consume_ok_stands_first_within_one_read() -> None:
    """#116 consume and publishes in one piece of bytes, publish before and behind."""
    ch = Pair().connect().channel()
    ch.declare("q")
    publish = (
        frames.encode_method(commands.Basic.Publish(routing_key="q"), ch.number)
        + frames.header_frame(ch.number, 1)
        + frames.body_frame(ch.number, b"m")
    )
    consume = frames.encode_method(commands.Basic.Consume(queue="q", consumer_tag="c"), ch.number)
    ch.feed(publish + consume + publish)
    ch.expect(commands.Basic.ConsumeOk)
    assert ch.bodies() == [b"m", b"m"]


def test_consume_with_nowait() -> None:
    """#116 no consume-ok, deliveries come."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    ch.send(commands.Basic.Consume(queue="q", consumer_tag="c", nowait=True))
    assert ch.bodies() == [b"m"]


# --------------------------------------------------------------------------------------------------- no-local, no-ack


def test_no_local_is_ignored() -> None:
    """#118 a consumer with no-local gets what its own connection publishes."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", no_local=True)
    ch.publish(b"own", key="q")
    assert ch.bodies() == [b"own"]


def test_no_ack_ignores_prefetch() -> None:
    """#118 the consumer's prefetch does not hold back what needs no ack, nor is the channel's used up by it."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.declare("r")
    ch.qos(1)
    ch.qos(1, is_global=True)
    ch.consume("q", no_ack=True)
    for n in range(5):
        ch.publish(b"%d" % n, key="q")
    assert ch.bodies() == [b"0", b"1", b"2", b"3", b"4"]
    ch.consume("r")
    ch.publish(b"needs ack", key="r")
    assert ch.bodies() == [b"needs ack"]


def test_no_ack_is_settled_at_once() -> None:
    """#118 nothing comes back when the channel ends."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    fetch(ch, no_ack=True)
    ch.consume("q", no_ack=True)
    assert ch.bodies() == [b"2"]
    ch.close()
    assert client.channel().drain("q") == []


# --------------------------------------------------------------------------------------------------------------- get


def test_get_of_an_empty_queue() -> None:
    """#119 get-empty, whose one argument is an empty shortstr."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.send(commands.Basic.Get(queue="q"))
    item = ch.client.take(ch.number)
    assert item is not None
    assert item.payload == b"\x00\x3c\x00\x48\x00"
    ch.expect_nothing()


def test_get_ok_counts_what_is_left() -> None:
    """#119 ready messages after this one; unacked ones are not counted."""
    ch = Pair().connect().channel()
    ch.declare("q")
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    assert [left(fetch(ch)), left(fetch(ch)), left(fetch(ch))] == [2, 1, 0]


def test_get_ignores_prefetch() -> None:
    """#119 any number may be got, and got messages leave a consumer's own credit alone."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.qos(1)
    for n in range(5):
        ch.publish(b"%d" % n, key="q")
    assert [fetch(ch).body for _ in range(3)] == [b"0", b"1", b"2"]
    ch.consume("q", "c")
    assert ch.bodies() == [b"3"]
    assert fetch(ch).body == b"4"


def test_get_of_a_missing_queue() -> None:
    """#119 404."""
    ch = Pair().connect().channel()
    ch.send(commands.Basic.Get(queue="nope"))
    ch.expect_close(404, "NOT_FOUND - no queue 'nope' in vhost '/'", commands.Basic.Get)


def test_consume_from_a_missing_queue() -> None:
    """#116 404 and no consume-ok, with nowait too."""
    client = Pair().connect()
    for nowait in (False, True):
        ch = client.channel()
        ch.send(loose(commands.Basic.Consume, queue="nope", nowait=nowait))
        ch.expect_close(404, "NOT_FOUND - no queue 'nope' in vhost '/'", commands.Basic.Consume)

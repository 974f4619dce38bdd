"""Publisher confirms: numbering, what is acked and nacked, how acks are gathered, and what stands before them."""

from pamqp import base, commands

from tests.support import frames
from tests.support.pair import Channel, Pair, whole_turns


def publish_bytes(channel: int, body: bytes, *, exchange: str = "", key: str = "q", mandatory: bool = False) -> bytes:
    """One publish as it stands on the wire, to put many into one read."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return (
        frames.encode_method(method, channel)
        + frames.header_frame(channel, len(body))
        + frames.body_frame(channel, body)
    )


def settle(confirms: list[tuple[str, int, bool]], published: int) -> dict[int, str]:
    """What a client makes of a row of acks and nacks: a tag settled once, `multiple` means all open up to it."""
    settled: dict[int, str] = {}
    for name, tag, multiple in confirms:
        assert 1 <= tag <= published
        tags = [one for one in range(1, tag + 1) if one not in settled] if multiple else [tag]
        assert tags, f"{name} {tag} settles nothing"
        assert not any(one in settled for one in tags), f"{name} {tag} settles again"
        settled.update(dict.fromkeys(tags, name))
    return settled


def names(ch: Channel) -> list[str]:
    """What stands on the channel, taken, by name."""
    taken = []
    while (item := ch.client.take(ch.number)) is not None:
        taken.append(item.frame.name if isinstance(item.frame, base.Frame) else type(item.frame).__name__)
    return taken


def test_numbers_start_at_one_after_select() -> None:
    """#92 publishes before confirm.select are not counted."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"before", key="q")
    ch.expect_nothing()
    ch.confirm()
    ch.publish(b"first", key="q")
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.publish(b"second", key="q")
    assert ch.expect_confirms() == [("ack", 2, False)]


def test_selecting_twice_does_not_reset() -> None:
    """#92 the numbers go on after a second confirm.select."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.confirm()
    ch.publish(b"1", key="q")
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.confirm()
    ch.publish(b"2", key="q")
    assert ch.expect_confirms() == [("ack", 2, False)]


def test_select_with_nowait() -> None:
    """#92 no select-ok, and confirms are on."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.send(commands.Confirm.Select(nowait=True))
    ch.expect_nothing()
    ch.publish(b"1", key="q")
    assert ch.expect_confirms() == [("ack", 1, False)]


def test_numbers_are_per_channel() -> None:
    """#92 another channel of the connection counts for itself, and one without select gets nothing."""
    client = Pair().connect()
    one, two, plain = client.channel(), client.channel(), client.channel()
    one.declare("q")
    one.confirm()
    two.confirm()
    one.publish(b"1", key="q")
    one.publish(b"2", key="q")
    two.publish(b"1", key="q")
    plain.publish(b"1", key="q")
    assert settle(one.expect_confirms(), 2) == {1: "ack", 2: "ack"}
    assert two.expect_confirms() == [("ack", 1, False)]
    plain.expect_nothing()


def test_unroutable_is_acked() -> None:
    """#91 no queue, no mandatory: the broker has done what it was asked."""
    ch = Pair().connect().channel()
    ch.confirm()
    ch.publish(b"m", key="nowhere")
    assert ch.expect_confirms() == [("ack", 1, False)]


def test_return_stands_before_its_ack() -> None:
    """#90 mandatory and unroutable: basic.return 312 with the whole content, then the ack."""
    ch = Pair().connect().channel()
    ch.confirm()
    ch.publish(b"body", "amq.direct", "nowhere", mandatory=True, message_id="m1", headers={"h": "v"})
    returned = ch.expect_message(commands.Basic.Return)
    method = returned.method
    assert isinstance(method, commands.Basic.Return)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("amq.direct", "nowhere")
    assert returned.body == b"body"
    assert returned.raw_properties == frames.properties(message_id="m1", headers={"h": "v"})
    assert ch.expect_confirms() == [("ack", 1, False)]
    ch.expect_nothing()


def test_returned_body_is_cut_to_frames() -> None:
    """#90 #15 a large body comes back whole in frames the client can take."""
    ch = Pair().connect(frame_max=4096).channel()
    body = bytes(range(256)) * 40
    ch.publish(body, key="nowhere", mandatory=True)
    returned = ch.expect_message(commands.Basic.Return)
    assert (returned.body, returned.bodies) == (body, 3)


def test_every_return_stands_before_its_ack_within_one_read() -> None:
    """#90 routed and unroutable mixed in one read: no ack covers a message whose return has not been sent."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.confirm()
    keys = ["q", "none", "q", "none", "none", "q"]
    ch.feed(
        b"".join(
            publish_bytes(ch.number, str(tag).encode(), key=key, mandatory=True) for tag, key in enumerate(keys, 1)
        )
    )
    returned: list[int] = []
    unsettled = set(range(1, 7))
    while any(item.channel == ch.number for item in ch.client.received()):
        for name, last, multiple in ch.expect_confirms():
            covered = {tag for tag in unsettled if tag == last or (multiple and tag < last)}
            assert name == "ack"
            assert all(keys[tag - 1] == "q" or tag in returned for tag in covered), "an ack overtook its return"
            unsettled -= covered
        if unsettled:
            returned.append(int(ch.expect_message(commands.Basic.Return).body))
    assert returned == [2, 4, 5]
    assert not unsettled


def test_each_publish_stands_for_itself() -> None:
    """#90 #91 publishes that differ from the one before in one thing: neither flag nor route of the last sticks."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.confirm()
    row = [
        ("", "q", False, "ack"),
        ("", "q", True, "ack"),
        ("", "x", True, "return"),  # another key of the same size
        ("", "x", False, "ack"),  # not mandatory any more
        ("", "x", True, "return"),  # mandatory again
        ("amq.direct", "q", True, "return"),  # another exchange
        ("", "full", True, "nack"),
        ("", "q", True, "ack"),
    ]
    for tag, (exchange, key, mandatory, outcome) in enumerate(row, 1):
        ch.publish(b"%d" % tag, exchange, key, mandatory=mandatory)
        if outcome == "return":
            returned = ch.expect_message(commands.Basic.Return)
            assert (returned.exchange, returned.routing_key, returned.body) == (exchange, key, b"%d" % tag)
        assert ch.expect_confirms() == [("nack" if outcome == "nack" else "ack", tag, False)]
        ch.expect_nothing()
    assert ch.drain("q") == [b"1", b"2", b"8"]


def test_publish_is_routed_by_what_stands_now() -> None:
    """#90 #50 the same publish before and after a queue, a binding and the queue again come and go."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()

    def is_returned(exchange: str, key: str) -> bool:
        ch.publish(b"m", exchange, key, mandatory=True)
        returned = any(item.channel == ch.number for item in client.received())
        if returned:
            ch.expect_message(commands.Basic.Return)
        return returned

    assert is_returned("", "q")
    other.declare("q")
    assert not is_returned("", "q")
    assert is_returned("amq.direct", "k")
    other.bind("q", "amq.direct", "k")
    assert not is_returned("amq.direct", "k")
    other.unbind("q", "amq.direct", "k")
    assert is_returned("amq.direct", "k")
    other.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    assert is_returned("", "q")
    other.declare("q")
    assert not is_returned("", "q")


def test_routed_mandatory_is_not_returned() -> None:
    """#90 mandatory with a queue: ack alone."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.confirm()
    ch.publish(b"m", key="q", mandatory=True)
    assert names(ch) == ["Basic.Ack"]


def test_return_without_confirms() -> None:
    """#90 mandatory works on any channel."""
    ch = Pair().connect().channel()
    ch.publish(b"m", key="nowhere", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"m"
    ch.expect_nothing()


@whole_turns
def test_acks_of_one_read_are_gathered() -> None:
    """#93 a hundred publishes in one read need one cumulative ack, not a hundred."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.confirm()
    ch.feed(b"".join(publish_bytes(ch.number, b"m") for _ in range(100)))
    assert ch.expect_confirms() == [("ack", 100, True)]
    ch.feed(b"".join(publish_bytes(ch.number, b"m") for _ in range(5)))
    assert ch.expect_confirms() == [("ack", 105, True)]


def test_a_single_confirm_is_not_cumulative() -> None:
    """#93 one publish, one ack or nack without `multiple`: some clients treat the two apart."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.confirm()
    for tag, (key, answer) in enumerate([("q", "ack"), ("full", "nack"), ("q", "ack")], 1):
        ch.publish(b"m", key=key)
        assert ch.expect_confirms() == [(answer, tag, False)]


def test_acks_and_nacks_are_not_merged() -> None:
    """#93 #91 refusals between successes: whoever reads the row settles every tag as it went."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.confirm()
    keys = ["q", "q", "full", "q", "full", "full", "q", "q", "full"]
    ch.feed(b"".join(publish_bytes(ch.number, b"m", key=key) for key in keys))
    expected = {tag: "nack" if key == "full" else "ack" for tag, key in enumerate(keys, 1)}
    assert settle(ch.expect_confirms(), len(keys)) == expected
    ch.expect_nothing()


def test_nack_has_no_requeue() -> None:
    """#95 the requeue bit of the server's nack is 0."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.confirm()
    ch.publish(b"m", key="full")
    item = client.take(ch.number)
    assert item is not None
    assert isinstance(item.frame, commands.Basic.Nack)
    assert item.frame.requeue is False
    assert item.payload == frames.short(60) + frames.short(120) + frames.longlong(1) + b"\x00"


def test_transient_and_persistent_are_both_acked() -> None:
    """#94 in every combination of message and queue, with or without a consumer that takes it at once."""
    client = Pair().connect()
    ch, consumer = client.channel(), client.channel()
    ch.confirm()
    tag = delivered = 0
    for durable in (False, True):
        queue = f"durable-{durable}"
        ch.declare(queue, durable=durable)
        for consumed in (False, True):
            if consumed:
                consumer.consume(queue, no_ack=True)
            for delivery_mode in (1, 2):
                ch.publish(b"m", key=queue, delivery_mode=delivery_mode)
                tag += 1
                assert ch.expect_confirms() == [("ack", tag, False)]
        delivered += len(consumer.deliveries())
    assert delivered == 8


def test_delivery_on_the_publishing_channel_keeps_the_numbers_apart() -> None:
    """#92 #108 delivery tags and confirm tags of one channel count separately."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"0", key="q")
    ch.publish(b"0", key="q")
    assert ch.get("q") is not None
    assert ch.get("q") is not None
    ch.confirm()
    ch.publish(b"1", key="q")
    assert ch.expect_confirms() == [("ack", 1, False)]
    third = ch.get("q")
    assert third is not None
    assert third.tag == 3


def test_confirm_select_on_a_tx_channel() -> None:
    """#96 406."""
    ch = Pair().connect().channel()
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)
    ch.send(commands.Confirm.Select())
    ch.expect_close(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", commands.Confirm.Select)


def test_tx_select_on_a_confirm_channel() -> None:
    """#96 406."""
    ch = Pair().connect().channel()
    ch.confirm()
    ch.send(commands.Tx.Select())
    ch.expect_close(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", commands.Tx.Select)

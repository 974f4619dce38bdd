"""The life of queues as a client sees it: names, counts, passive and exclusive use, purge, delete, expiry."""

import re

import pytest
from pamqp import base, commands

from tests.support.frames import encode_method
from tests.support.pair import Channel, Client, Pair, loose

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)
NO_QUEUE = "NOT_FOUND - no queue 'q' in vhost '/'"


def exists(client: Client, queue: str = "q") -> bool:
    """Ask with a passive declare on a channel of its own."""
    ch = client.channel()
    ch.send(commands.Queue.Declare(queue=queue, passive=True))
    item = client.take(ch.number)
    assert item is not None
    if isinstance(item.frame, commands.Queue.DeclareOk):
        ch.close()
        return True
    assert isinstance(item.frame, commands.Channel.Close)
    assert item.frame.reply_text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"
    ch.send(commands.Channel.CloseOk())
    return False


def counts(ch: Channel, queue: str = "q") -> tuple[int, int]:
    """(ready messages, consumers) as a passive declare tells them."""
    ok = ch.declare(queue, passive=True)
    return ok.message_count or 0, ok.consumer_count or 0


def delete(ch: Channel, queue: str = "q", **fields: object) -> int:
    return ch.call(loose(commands.Queue.Delete, queue=queue, **fields), commands.Queue.DeleteOk).message_count or 0


# ------------------------------------------------------------------------------------------------------- names


def test_server_names_a_queue() -> None:
    """#65 an empty name gets amq.gen- and 22 url-safe characters, a new one each time, and is a working queue."""
    ch = Pair().connect().channel()
    first, second = str(ch.declare("").queue), str(ch.declare("").queue)
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", first)
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", second)
    assert first != second
    ch.publish(b"one", key=first)
    assert ch.drain(first) == [b"one"]
    assert ch.drain(second) == []


def test_server_names_no_quorum_queue() -> None:
    """#65 only classic queues may be named by the server."""
    ch = Pair().connect().channel()
    ch.send(loose(commands.Queue.Declare, queue="", durable=True, arguments={"x-queue-type": "quorum"}))
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue",
        commands.Queue.Declare,
    )


def test_reserved_prefix_is_refused() -> None:
    """#66 a client makes no queue whose name starts with amq."""
    client = Pair().connect()
    ch = client.channel()
    ch.send(loose(commands.Queue.Declare, queue="amq.mine"))
    ch.expect_close(
        403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'", commands.Queue.Declare
    )
    assert not exists(client, "amq.mine")


def test_reserved_prefix_is_refused_even_if_the_queue_exists() -> None:
    """#66 a server-named queue cannot be declared again by its name, only checked passively."""
    client = Pair().connect()
    ch = client.channel()
    name = str(ch.declare("").queue)
    assert ch.declare(name, passive=True).queue == name
    ch.send(loose(commands.Queue.Declare, queue=name))
    ch.expect_close(
        403, f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'", commands.Queue.Declare
    )
    assert exists(client, name)


# ------------------------------------------------------------------------------------------- counts and passive


def test_declare_ok_counts_ready_messages_and_consumers() -> None:
    """#67 message-count leaves out what is unacked; consumer-count counts consumers, not channels."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    fresh = ch.declare("q")
    assert (fresh.queue, fresh.message_count, fresh.consumer_count) == ("q", 0, 0)
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    again = ch.declare("q")
    assert (again.message_count, again.consumer_count) == (3, 0)
    assert ch.get("q", no_ack=False) is not None
    assert counts(ch) == (2, 0)
    other.qos(1)
    other.consume("q", "a")
    assert len(other.deliveries()) == 1
    other.consume("q", "b")
    assert len(other.deliveries()) == 1
    assert counts(ch) == (0, 2)


def test_declare_with_nowait_is_silent() -> None:
    """#67 nowait: the queue is made, nothing comes back, not even for a passive check."""
    client = Pair().connect()
    ch = client.channel()
    ch.send(loose(commands.Queue.Declare, queue="q", nowait=True))
    ch.send(loose(commands.Queue.Declare, queue="q", passive=True, nowait=True))
    ch.expect_nothing()
    assert counts(ch) == (0, 0)


def test_nowait_declare_still_fails_aloud() -> None:
    """#67 nowait drops the reply, not the error."""
    ch = Pair().connect().channel()
    ch.send(loose(commands.Queue.Declare, queue="q", passive=True, nowait=True))
    ch.expect_close(404, NO_QUEUE, commands.Queue.Declare)


def test_passive_declare_of_a_missing_queue() -> None:
    """#68 404, and the check has made nothing."""
    client = Pair().connect()
    ch = client.channel()
    ch.send(loose(commands.Queue.Declare, queue="q", passive=True))
    ch.expect_close(404, NO_QUEUE, commands.Queue.Declare)
    assert not exists(client)


def test_passive_declare_ignores_everything_else() -> None:
    """#68 durable, auto-delete and arguments do not matter when passive, nor does a bad argument."""
    ch = Pair().connect().channel()
    ch.declare("q", arguments={"x-message-ttl": 5000})
    ok = ch.declare("q", passive=True, durable=True, auto_delete=True, arguments={"x-expires": 0})
    assert ok.queue == "q"


def test_passive_declare_of_a_foreign_exclusive_queue() -> None:
    """#68 405 when the queue is exclusive to another connection."""
    pair = Pair()
    pair.connect().channel().declare("q", exclusive=True)
    ch = pair.connect().channel()
    ch.send(loose(commands.Queue.Declare, queue="q", passive=True))
    ch.expect_close(405, LOCKED, commands.Queue.Declare)


# ---------------------------------------------------------------------------------------------------- exclusive


@pytest.mark.parametrize(
    "method",
    [
        loose(commands.Queue.Declare, queue="q", exclusive=True),
        loose(commands.Basic.Consume, queue="q"),
        loose(commands.Basic.Get, queue="q"),
        loose(commands.Queue.Purge, queue="q"),
        loose(commands.Queue.Delete, queue="q"),
        loose(commands.Queue.Bind, queue="q", exchange="amq.direct", routing_key="k"),
        loose(commands.Queue.Declare, queue="q"),
    ],
    ids=["declare", "consume", "get", "purge", "delete", "bind", "declare-shared"],
)
def test_foreign_exclusive_queue_is_locked(method: base.Frame) -> None:
    """#69 every method on another connection's exclusive queue gets 405, and the owner notices nothing."""
    pair = Pair()
    owner = pair.connect().channel()
    owner.declare("q", exclusive=True)
    owner.publish(b"mine", key="q")
    ch = pair.connect().channel()
    ch.send(method)
    ch.expect_close(405, LOCKED, type(method))
    assert owner.drain("q") == [b"mine"]
    owner.expect_nothing()


def test_everybody_may_publish_to_an_exclusive_queue() -> None:
    """#69 exclusive locks the queue, not the routes to it: replies must reach it."""
    pair = Pair()
    owner = pair.connect().channel()
    owner.declare("q", exclusive=True)
    pair.connect().channel().publish(b"reply", key="q")
    assert owner.drain("q") == [b"reply"]


@pytest.mark.parametrize("was_exclusive", [True, False])
def test_exclusive_flag_must_match_on_the_same_connection(was_exclusive: bool) -> None:
    """#69 #70 a different exclusive flag is 405, for the owner too."""
    client = Pair().connect()
    client.channel().declare("q", exclusive=was_exclusive)
    ch = client.channel()
    ch.send(loose(commands.Queue.Declare, queue="q", exclusive=not was_exclusive))
    ch.expect_close(405, LOCKED, commands.Queue.Declare)


def test_exclusive_queue_outlives_its_channel() -> None:
    """#81 it belongs to the connection: the declaring channel may go."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q", exclusive=True)
    ch.publish(b"kept", key="q")
    ch.close()
    assert client.channel().drain("q") == [b"kept"]


@pytest.mark.parametrize("ending", ["close", "drop"])
def test_exclusive_queue_dies_with_its_connection(ending: str) -> None:
    """#81 closed properly or lost: the queue is gone, and its name is free for somebody else."""
    pair = Pair()
    owner, other = pair.connect(), pair.connect()
    ch = owner.channel()
    ch.declare("q", exclusive=True)
    ch.publish(b"lost", key="q")
    owner.close() if ending == "close" else owner.drop()
    assert not exists(other)
    heir = other.channel()
    assert heir.declare("q", exclusive=True).message_count == 0


def test_durable_exclusive_is_not_durable() -> None:
    """#81 an exclusive queue is kept as transient: declaring it again with durable=false is the same declaration."""
    ch = Pair().connect().channel()
    ch.declare("q", exclusive=True, durable=True)
    assert ch.declare("q", exclusive=True, durable=False).queue == "q"
    assert ch.declare("q", exclusive=True, durable=True).queue == "q"


def test_transient_shared_queue_is_accepted() -> None:
    """#83 durable=false, exclusive=false is what several clients declare by default; it outlives its connection."""
    pair = Pair()
    first = pair.connect()
    ch = first.channel()
    ch.declare("q", durable=False, exclusive=False, auto_delete=False)
    ch.publish(b"still here", key="q")
    first.close()
    assert pair.connect().channel().drain("q") == [b"still here"]


def test_vhost_queue_limit() -> None:
    """#84 one beyond the vhost's limit is 406; queues that exist may be declared again, and deleting one makes room."""
    pair = Pair()
    pair.broker.set_vhost_limits("/", {"max-queues": 2})
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare("r")
    refused = client.channel()
    refused.send(loose(commands.Queue.Declare, queue="s"))
    refused.expect_close(
        406,
        "PRECONDITION_FAILED - cannot declare queue 's': queue limit in vhost '/' (2) is reached",
        commands.Queue.Declare,
    )
    assert ch.declare("q").queue == "q"
    delete(ch, "r")
    assert ch.declare("s").queue == "s"


# --------------------------------------------------------------------------------------------- delete and purge


def test_delete_of_a_missing_queue_is_ok() -> None:
    """#78 delete-ok with 0."""
    ch = Pair().connect().channel()
    assert delete(ch, "nope") == 0


def test_delete_counts_ready_messages() -> None:
    """#78 the reply leaves out what is unacked."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    assert ch.get("q", no_ack=False) is not None
    assert delete(ch) == 2
    assert not exists(client)


def test_delete_if_unused() -> None:
    """#78 406 while there is a consumer; allowed once it is gone, messages or not."""
    client = Pair().connect()
    ch, consumer = client.channel(), client.channel()
    ch.declare("q")
    consumer.consume("q", "c")
    refused = client.channel()
    refused.send(loose(commands.Queue.Delete, queue="q", if_unused=True))
    refused.expect_close(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use", commands.Queue.Delete)
    assert counts(ch) == (0, 1)
    consumer.call(commands.Basic.Cancel(consumer_tag="c"), commands.Basic.CancelOk)
    ch.publish(b"m", key="q")
    assert delete(ch, if_unused=True) == 1
    assert not exists(client)


def test_delete_if_empty() -> None:
    """#78 406 while a message is ready; one that is only unacked does not count."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    refused = client.channel()
    refused.send(loose(commands.Queue.Delete, queue="q", if_empty=True))
    refused.expect_close(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty", commands.Queue.Delete)
    assert counts(ch) == (1, 0)
    assert ch.get("q", no_ack=False) is not None
    assert delete(ch, if_empty=True) == 0
    assert not exists(client)


def test_delete_with_nowait_is_silent() -> None:
    """#78 the queue is gone and nothing came back."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.send(loose(commands.Queue.Delete, queue="q", nowait=True))
    ch.expect_nothing()
    assert not exists(client)


def test_settling_after_the_queue_is_gone() -> None:
    """#78 what was unacked when its queue was deleted may still be settled, without effect and without error."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    tags = [message.tag for message in (ch.get("q", no_ack=False), ch.get("q", no_ack=False)) if message]
    delete(ch)
    ch.ack(tags[0])
    ch.nack(tags[1], requeue=True)
    ch.expect_nothing()
    assert ch.declare("q").message_count == 0


def test_purge_takes_ready_messages_only() -> None:
    """#79 the reply counts them; unacked ones stay and come back when requeued."""
    ch = Pair().connect().channel()
    ch.declare("q")
    for body in (b"1", b"2", b"3"):
        ch.publish(body, key="q")
    held = ch.get("q", no_ack=False)
    assert held is not None
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 2
    assert counts(ch) == (0, 0)
    ch.nack(held.tag, requeue=True)
    assert ch.drain("q") == [b"1"]
    assert ch.call(commands.Queue.Purge(queue="q"), commands.Queue.PurgeOk).message_count == 0


def test_purge_of_a_missing_queue() -> None:
    """#79 404."""
    ch = Pair().connect().channel()
    ch.send(commands.Queue.Purge(queue="q"))
    ch.expect_close(404, NO_QUEUE, commands.Queue.Purge)


def test_purge_with_nowait_is_silent() -> None:
    """#79 purged, nothing came back."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    ch.send(commands.Queue.Purge(queue="q", nowait=True))
    ch.expect_nothing()
    assert counts(ch) == (0, 0)


# -------------------------------------------------------------------------------------------------- auto-delete


@pytest.mark.parametrize("ending", ["cancel", "channel", "connection", "drop"])
def test_auto_delete_follows_the_last_consumer(ending: str) -> None:
    """#80 the last of two consumers goes by cancel, by its channel's or its connection's end: the queue goes too."""
    pair = Pair()
    watcher, client = pair.connect(), pair.connect()
    first, last = client.channel(), client.channel()
    first.declare("q", auto_delete=True)
    first.consume("q", "first")
    last.consume("q", "last")
    first.call(commands.Basic.Cancel(consumer_tag="first"), commands.Basic.CancelOk)
    assert exists(watcher)
    if ending == "cancel":
        last.call(commands.Basic.Cancel(consumer_tag="last"), commands.Basic.CancelOk)
    elif ending == "channel":
        last.close()
    elif ending == "connection":
        client.close()
    else:
        client.drop()
    assert not exists(watcher)


def test_auto_delete_waits_for_a_first_consumer() -> None:
    """#80 a queue that never had a consumer stays, whatever was published, got or closed."""
    pair = Pair()
    watcher, client = pair.connect(), pair.connect()
    ch = client.channel()
    ch.declare("q", auto_delete=True)
    ch.publish(b"1", key="q")
    ch.publish(b"2", key="q")
    assert ch.get("q", no_ack=False) is not None
    client.drop()
    assert exists(watcher)
    assert watcher.channel().drain("q") == [b"1", b"2"]


# ---------------------------------------------------------------------------------------------------- x-expires


def test_unused_queue_expires() -> None:
    """#82 after x-expires ms without use the queue is gone, not before; publishing is no use."""
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-expires": 1000})
    pair.advance(600)
    ch.publish(b"does not renew", key="q", mandatory=True)
    pair.advance(399)
    ch.expect_nothing()  # routed: the queue stood
    pair.advance(1)
    assert not exists(client)
    ch.publish(b"too late", key="q", mandatory=True)
    assert ch.expect_message(commands.Basic.Return).body == b"too late"


@pytest.mark.parametrize("use", ["declare", "passive", "get"])
def test_use_renews_the_lease(use: str) -> None:
    """#82 declaring again, also passively, and basic.get (even of nothing) start x-expires anew."""
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-expires": 1000})
    pair.advance(900)
    if use == "declare":
        ch.declare("q", arguments={"x-expires": 1000})
    elif use == "passive":
        ch.declare("q", passive=True)
    else:
        assert ch.get("q") is None
    pair.advance(999)
    ch.publish(b"m", key="q", mandatory=True)
    ch.expect_nothing()
    pair.advance(1)
    assert not exists(client)


def test_consumer_stops_the_lease() -> None:
    """#82 no expiry while somebody consumes; the time starts when the last one goes."""
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("q", arguments={"x-expires": 1000})
    ch.consume("q", "c")
    pair.advance(50_000)
    ch.call(commands.Basic.Cancel(consumer_tag="c"), commands.Basic.CancelOk)
    pair.advance(999)
    ch.publish(b"m", key="q", mandatory=True)
    ch.expect_nothing()
    pair.advance(1)
    assert not exists(client)


def test_expired_queue_dead_letters_nothing() -> None:
    """#82 its messages vanish with it, whatever its dead letter exchange."""
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-expires": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish(b"m", key="q")
    pair.advance(1000)
    assert not exists(client)
    assert ch.drain("dead") == []


# ------------------------------------------------------------------------------------- consumers of a dead queue


def test_deleting_a_queue_cancels_its_consumers() -> None:
    """#85 #129 every consumer gets basic.cancel with nowait, on its own channel; the deleter gets its delete-ok."""
    pair = Pair()
    watcher, client = pair.connect().channel(), pair.connect()
    watcher.declare("q")
    one, two = client.channel(), client.channel()
    one.consume("q", "a")
    one.consume("q", "b")
    two.consume("q", "a")
    assert delete(watcher) == 0
    cancelled = [one.expect(commands.Basic.Cancel) for _ in range(2)]
    assert {cancel.consumer_tag for cancel in cancelled} == {"a", "b"}
    assert all(cancel.nowait for cancel in cancelled)
    assert two.expect(commands.Basic.Cancel).consumer_tag == "a"
    client.expect_nothing()


def test_cancel_notify_is_for_those_who_can_read_it() -> None:
    """#85 a client without the capability consumer_cancel_notify is told nothing, and its tag is free again."""
    pair = Pair()
    client = pair.connect(capabilities=("basic.nack",))
    ch = client.channel()
    ch.declare("q")
    ch.consume("q", "tag")
    delete(client.channel())
    ch.expect_nothing()
    ch.declare("q")
    assert ch.consume("q", "tag") == "tag"


def test_deleting_a_queue_confirms_what_was_published_to_it() -> None:
    """#85 a publish and the deletion of its queue in one read: the publish is acked, once, never nacked."""
    client = Pair().connect()
    ch = client.channel()
    ch.declare("q")
    ch.confirm()
    publish = (
        encode_method(commands.Basic.Publish(routing_key="q"), ch.number)
        + b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00"
        + b"\x00" * 8
        + b"\x00\x00\xce"
    )
    ch.feed(publish + encode_method(commands.Queue.Delete(queue="q"), ch.number))
    received = [client.take(ch.number), client.take(ch.number)]
    names = sorted(item.frame.name for item in received if item and isinstance(item.frame, base.Frame))
    assert names == ["Basic.Ack", "Queue.DeleteOk"]
    ch.expect_nothing()


def test_emptiness_is_looked_at_before_use() -> None:
    """#78 a queue that is neither empty nor unused is not empty."""
    client = Pair().connect()
    ch, consumer = client.channel(), client.channel()
    ch.declare("q")
    consumer.qos(1)
    consumer.consume("q")
    for body in (b"held", b"ready"):
        ch.publish(body, key="q")
    ch.send(loose(commands.Queue.Delete, queue="q", if_unused=True, if_empty=True))
    ch.expect_close(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty", commands.Queue.Delete)

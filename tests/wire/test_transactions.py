"""tx.*: nothing shows before commit, all of it after, nothing ever after rollback."""

import pytest
from pamqp import base, commands

from tests.support.pair import Channel, Message, Pair


def select(ch: Channel) -> None:
    ch.call(commands.Tx.Select(), commands.Tx.SelectOk)


def commit(ch: Channel) -> None:
    ch.call(commands.Tx.Commit(), commands.Tx.CommitOk)


def rollback(ch: Channel) -> None:
    ch.call(commands.Tx.Rollback(), commands.Tx.RollbackOk)


def ready(ch: Channel, queue: str = "q") -> int:
    return ch.declare(queue, passive=True).message_count or 0


def fetch(ch: Channel, queue: str = "q") -> Message:
    message = ch.get(queue, no_ack=False)
    assert message is not None
    return message


@pytest.mark.parametrize("method", [commands.Tx.Commit(), commands.Tx.Rollback()], ids=["commit", "rollback"])
def test_tx_needs_select(method: base.Frame) -> None:
    """#97 406."""
    ch = Pair().connect().channel()
    ch.send(method)
    ch.expect_close(406, "PRECONDITION_FAILED - channel is not transactional", type(method))


def test_publishes_show_at_commit() -> None:
    """#98 to several queues, in the order published; the next transaction has begun."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    ch.declare("q")
    ch.declare("r")
    select(ch)
    for key, body in (("q", b"1"), ("r", b"2"), ("q", b"3")):
        ch.publish(body, key=key)
    assert (ready(watcher, "q"), ready(watcher, "r")) == (0, 0)
    commit(ch)
    assert (watcher.drain("q"), watcher.drain("r")) == ([b"1", b"3"], [b"2"])
    ch.publish(b"4", key="q")
    assert ready(watcher) == 0
    commit(ch)
    assert watcher.drain("q") == [b"4"]


def test_consumer_gets_nothing_before_commit() -> None:
    """#98 a waiting consumer on the same channel included; commit-ok is not held back by the deliveries."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.consume("q", "c", no_ack=True)
    select(ch)
    ch.publish(b"m", key="q")
    ch.expect_nothing()
    commit(ch)
    assert ch.bodies() == [b"m"]


def test_acks_count_at_commit() -> None:
    """#98 until then the message is unacked: losing the channel brings it back."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    watcher.publish(b"m", key="q")
    select(ch)
    ch.ack(fetch(ch).tag)
    ch.close()
    again = fetch(watcher)
    assert (again.body, again.redelivered) == (b"m", True)


def test_committed_ack_is_final() -> None:
    """#98 after commit the message is gone and its tag unknown."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    watcher.publish(b"m", key="q")
    select(ch)
    tag = fetch(ch).tag
    ch.ack(tag)
    commit(ch)
    ch.ack(tag)
    ch.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", commands.Basic.Ack)
    assert ready(watcher) == 0


@pytest.mark.parametrize("requeue", [True, False])
def test_rejects_count_at_commit(requeue: bool) -> None:
    """#98 nack and reject are part of the transaction like acks."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    watcher.publish(b"1", key="q")
    watcher.publish(b"2", key="q")
    select(ch)
    ch.reject(fetch(ch).tag, requeue=requeue)
    ch.nack(fetch(ch).tag, requeue=requeue)
    assert ready(watcher) == 0
    commit(ch)
    assert watcher.drain("q") == ([b"1", b"2"] if requeue else [])


def test_a_tag_is_settled_once_within_a_transaction() -> None:
    """#98 #109 the second ack of a tag is unknown although the first is not committed."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    select(ch)
    tag = fetch(ch).tag
    ch.ack(tag)
    ch.ack(tag)
    ch.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", commands.Basic.Ack)


def test_ack_gives_credit_at_commit() -> None:
    """#98 prefetch stays used until the transaction ends."""
    client = Pair().connect()
    ch, publisher = client.channel(), client.channel()
    ch.declare("q")
    publisher.publish(b"1", key="q")
    publisher.publish(b"2", key="q")
    select(ch)
    ch.qos(1)
    ch.consume("q", "c")
    first = ch.expect_message()
    ch.ack(first.tag)
    ch.expect_nothing()
    commit(ch)
    assert ch.bodies() == [b"2"]


def test_returns_come_at_commit() -> None:
    """#98 mandatory and unroutable: basic.return when committed, before commit-ok; nothing after a rollback."""
    ch = Pair().connect().channel()
    select(ch)
    ch.publish(b"m", key="nowhere", mandatory=True)
    ch.expect_nothing()
    ch.send(commands.Tx.Commit())
    returned = ch.expect_message(commands.Basic.Return)
    assert isinstance(returned.method, commands.Basic.Return)
    assert (returned.method.reply_code, returned.method.reply_text, returned.body) == (312, "NO_ROUTE", b"m")
    ch.expect(commands.Tx.CommitOk)
    ch.publish(b"m", key="nowhere", mandatory=True)
    rollback(ch)
    commit(ch)
    ch.expect_nothing()


def test_a_client_may_have_unroutable_transactions_refused() -> None:
    """It says so with a capability: then nothing of the transaction happens."""
    client = Pair().connect(capabilities=["tx_refuse_unroutable"])
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    select(ch)
    ch.publish(b"m", key="q", mandatory=True)
    ch.publish(b"dropped", key="nowhere")
    commit(ch)
    assert watcher.drain("q") == [b"m"], "what is not mandatory does not count"
    ch.publish(b"m", key="q", mandatory=True)
    ch.publish(b"m", exchange="amq.topic", key="no.where", mandatory=True)
    ch.send(commands.Tx.Commit())
    why = "1 mandatory messages of the transaction are unroutable, the first to exchange 'amq.topic' with routing key"
    ch.expect_close(406, f"PRECONDITION_FAILED - {why} 'no.where'", commands.Tx.Commit)
    assert watcher.drain("q") == []


def test_route_is_taken_when_the_publish_arrives() -> None:
    """#98 a queue declared between publish and commit gets nothing of it."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    select(ch)
    ch.publish(b"m", key="q", mandatory=True)
    other.declare("q")
    ch.send(commands.Tx.Commit())
    assert ch.expect_message(commands.Basic.Return).body == b"m"
    ch.expect(commands.Tx.CommitOk)
    assert other.drain("q") == []


def test_queue_deleted_before_commit() -> None:
    """#98 the route's queue is gone at commit: the rest is committed, no error."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    other.declare("q")
    other.declare("r")
    select(ch)
    ch.publish(b"lost", key="q")
    ch.publish(b"kept", key="r")
    other.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    commit(ch)
    assert other.drain("r") == [b"kept"]


def test_mandatory_publish_to_a_queue_deleted_before_commit() -> None:
    """#98 no queue is left at commit: it is returned then, before commit-ok; while one is left it is not."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    for queue in ("q", "r"):
        other.declare(queue)
        other.bind(queue, "amq.fanout")
    select(ch)
    ch.publish(b"returned", key="q", mandatory=True)
    ch.publish(b"kept", "amq.fanout", mandatory=True)
    other.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    ch.send(commands.Tx.Commit())
    assert ch.expect_message(commands.Basic.Return).body == b"returned"
    ch.expect(commands.Tx.CommitOk)
    ch.expect_nothing()
    assert other.drain("r") == [b"kept"]


def test_queue_declared_anew_before_commit() -> None:
    """#98 a publish goes to what has its queue's name at commit."""
    client = Pair().connect()
    ch, other = client.channel(), client.channel()
    other.declare("q")
    select(ch)
    ch.publish(b"m", key="q", mandatory=True)
    other.call(commands.Queue.Delete(queue="q"), commands.Queue.DeleteOk)
    other.declare("q")
    commit(ch)
    assert other.drain("q") == [b"m"]


def test_publishes_are_committed_before_acks() -> None:
    """#98 a dead letter made by the transaction's reject comes behind what the transaction published."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("dead")
    watcher.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    watcher.publish(b"rejected", key="q")
    select(ch)
    ch.reject(fetch(ch).tag, requeue=False)
    ch.publish(b"published", key="dead")
    commit(ch)
    assert watcher.drain("dead") == [b"published", b"rejected"]


def full_queue_transaction() -> tuple[Channel, Channel]:
    """A transaction that acks one message and publishes three, of which the queue `full` refuses the second."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    watcher.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    watcher.publish(b"held", key="q")
    select(ch)
    ch.ack(fetch(ch).tag)
    for key in ("q", "full", "q"):
        ch.publish(b"new", key=key)
    ch.send(commands.Tx.Commit())
    return ch, watcher


def test_refused_commit_closes_the_channel() -> None:
    """#98 a full queue refuses: 406 in place of commit-ok."""
    ch, _ = full_queue_transaction()
    ch.expect_close(406, "PRECONDITION_FAILED - partial tx completion", commands.Tx.Commit)


def test_refused_commit_changes_nothing() -> None:
    """#98 commit is atomic: what one queue refuses, no queue gets, and the acks of the transaction did not happen."""
    ch, watcher = full_queue_transaction()
    ch.expect_close(406, "PRECONDITION_FAILED - partial tx completion", commands.Tx.Commit)
    assert watcher.drain("q") == [b"held"]


def test_rollback_discards_publishes() -> None:
    """#99 nothing of it ever shows; the next transaction is empty."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    select(ch)
    ch.publish(b"never", key="q")
    rollback(ch)
    commit(ch)
    assert watcher.drain("q") == []


def test_rollback_makes_acked_messages_unacked_again() -> None:
    """#99 not requeued: the holder keeps them, may ack them again, in the order they were delivered."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    for body in (b"1", b"2", b"3"):
        watcher.publish(body, key="q")
    select(ch)
    tags = [fetch(ch).tag for _ in range(3)]
    ch.ack(tags[1])
    ch.nack(tags[0], requeue=False)
    rollback(ch)
    assert ready(watcher) == 0
    ch.ack(tags[1], multiple=True)
    commit(ch)
    ch.close()
    assert watcher.drain("q") == [b"3"]


def test_closing_is_a_rollback() -> None:
    """#99 a channel closed inside a transaction publishes nothing and gives back what it held."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    watcher.publish(b"held", key="q")
    select(ch)
    ch.ack(fetch(ch).tag)
    ch.publish(b"never", key="q")
    ch.close()
    again = fetch(watcher)
    assert (again.body, again.redelivered) == (b"held", True)
    assert ready(watcher) == 0


def test_missing_exchange_is_told_at_publish() -> None:
    """#100 404 for the publish, not for the commit; what came before is lost with the channel."""
    client = Pair().connect()
    ch, watcher = client.channel(), client.channel()
    watcher.declare("q")
    select(ch)
    ch.publish(b"before", key="q")
    ch.publish(b"m", "nope")
    ch.expect_close(404, "NOT_FOUND - no exchange 'nope' in vhost '/'", commands.Basic.Publish)
    assert watcher.drain("q") == []


def test_refused_exchange_is_told_at_publish() -> None:
    """#100 403 for the publish to an internal exchange."""
    ch = Pair().connect().channel()
    ch.declare_exchange("inside", internal=True)
    select(ch)
    ch.publish(b"m", "inside")
    ch.expect_close(
        403, "ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '/'", commands.Basic.Publish
    )


def test_selecting_twice_keeps_the_work() -> None:
    """#98 a second tx.select is answered and forgets nothing."""
    ch = Pair().connect().channel()
    ch.declare("q")
    select(ch)
    ch.publish(b"m", key="q")
    select(ch)
    commit(ch)
    assert ch.drain("q") == [b"m"]


def test_recovering_does_not_end_a_transaction() -> None:
    """#98 #124 basic.recover returns what is unacked, but for what the transaction is to ack, which it still is."""
    ch = Pair().connect().channel()
    ch.declare("q")
    for body in (b"acked", b"held"):
        ch.publish(body, key="q")
    select(ch)
    ch.ack(fetch(ch).tag)
    fetch(ch)
    ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    assert ready(ch) == 1
    ch.publish(b"new", key="q")
    assert ready(ch) == 1
    commit(ch)
    assert ch.drain("q") == [b"held", b"new"]


def test_recovering_leaves_a_rollback_what_was_acked() -> None:
    """#99 #124 what a rollback takes back is unacked again, also after basic.recover."""
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.publish(b"m", key="q")
    select(ch)
    tag = fetch(ch).tag
    ch.ack(tag)
    ch.call(commands.Basic.Recover(requeue=True), commands.Basic.RecoverOk)
    assert ready(ch) == 0
    rollback(ch)
    ch.nack(tag)
    commit(ch)
    assert ch.drain("q") == [b"m"]

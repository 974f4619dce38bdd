"""What ends is gone at once: reference counting alone frees connections, channels, queues, exchanges and vhosts.

The cycle collector looks at old objects rarely, and not at all while there are many; so nothing may wait for it.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from pamqp import commands

from rabbitlike.broker.accounts.permissions import Permission
from rabbitlike.broker.leases import Leases
from rabbitlike.storage.api import Recovered
from tests.support import frames
from tests.support.crash_pair import DurablePair, SimulatedDisk
from tests.support.live import live_objects
from tests.support.pair import Channel, Client, Pair

Scenario = Callable[[Pair], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(come_and_go: Scenario) -> Scenario:
    SCENARIOS[come_and_go.__name__] = come_and_go
    return come_and_go


def work(ch: Channel, queue: str = "work", **declaration: object) -> None:
    """A channel that publishes, consumes and leaves a delivery unacked."""
    ch.confirm()
    ch.declare(queue, **declaration)
    ch.consume(queue, "tag")
    for number in range(5):
        ch.publish(b"%d" % number, key=queue)
    ch.client.take_all()
    ch.ack(3, multiple=True)
    ch.reject(4, requeue=True)


def delete_queue(ch: Channel, queue: str) -> None:
    ch.client.take_all()
    ch.call(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)


def ended(pair: Pair, client: Client) -> None:
    """The test's own end of a connection is no reason for the broker to keep its own."""
    assert client.wire.is_lost
    pair.clients.remove(client)


# Connections


@scenario
def connection_closed(pair: Pair) -> None:
    client = pair.connect()
    work(client.channel(), exclusive=True)
    client.take_all()
    client.close()
    ended(pair, client)


@scenario
def connection_lost(pair: Pair) -> None:
    client = pair.connect(heartbeat=10)
    work(client.channel(), exclusive=True)
    client.drop()
    ended(pair, client)


@scenario
def connection_failed(pair: Pair) -> None:
    client = pair.connect()
    work(client.channel(), exclusive=True)
    client.take_all()
    client.send(commands.Channel.Open(), 1)
    client.expect(commands.Connection.Close)
    client.send(commands.Connection.CloseOk())
    ended(pair, client)


@scenario
def connection_never_answers_close(pair: Pair) -> None:
    client = pair.connect()
    work(client.channel(), exclusive=True)
    client.feed(b"\x09" * 20)
    pair.advance(60_000)
    ended(pair, client)


@scenario
def connection_refused(pair: Pair) -> None:
    client = pair.dial()
    client.feed(frames.PROTOCOL_HEADER)
    client.start_ok(response="\0guest\0wrong")
    client.drop()
    ended(pair, client)


@scenario
def connection_of_another_protocol(pair: Pair) -> None:
    client = pair.dial()
    client.feed(b"GET / HTTP/1.1\r\n\r\n")
    pair.settle()
    ended(pair, client)


@scenario
def connection_blocked(pair: Pair) -> None:
    client = pair.connect()
    ch = client.channel()
    ch.declare("blocked", exclusive=True)
    pair.broker.alarms.raise_("memory")
    ch.publish(b"one", key="blocked")
    client.drop()
    pair.broker.alarms.clear("memory")
    ended(pair, client)


@scenario
def connection_with_a_transaction(pair: Pair) -> None:
    client = pair.connect()
    ch = client.channel()
    work(ch, exclusive=True)
    other = client.channel()
    other.call(commands.Tx.Select(), commands.Tx.SelectOk)
    other.publish(b"never", key="work")
    other.get("work", no_ack=False)
    other.ack(1)
    client.drop()
    ended(pair, client)


@scenario
def connection_that_does_not_read(pair: Pair) -> None:
    client = pair.connect()
    ch = client.channel()
    ch.declare("unread", exclusive=True)
    ch.consume("unread", no_ack=True)
    client.stop_reading()
    for _ in range(50):
        ch.publish(bytes(10_000), key="unread")
    client.drop()
    ended(pair, client)


# Channels and consumers, of a connection that goes on


def lasting(pair: Pair) -> Client:
    """One connection for all runs of a scenario."""
    return pair.clients[0] if pair.clients else pair.connect()


@scenario
def channel_closed(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    work(ch, auto_delete=True)
    client.take_all()
    ch.close()


@scenario
def channel_failed(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    work(ch, auto_delete=True)
    client.take_all()
    ch.ack(99)
    ch.expect(commands.Channel.Close)
    ch.send(commands.Channel.CloseOk())


@scenario
def channel_held_a_delivery_too_long(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    work(ch, auto_delete=True, arguments={"x-consumer-timeout": 60_000})
    pair.advance(180_000)
    client.take_all()
    ch.send(commands.Channel.CloseOk())


@scenario
def channel_with_deadlines(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    work(ch, auto_delete=True, arguments={"x-ack-timeout": 1000})
    pair.advance(1500)
    client.take_all()
    ch.close()


@scenario
def channel_with_direct_replies(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.consume("amq.rabbitmq.reply-to", no_ack=True)
    ch.declare("requests", auto_delete=True)
    ch.consume("requests", no_ack=True)
    ch.publish(b"ask", key="requests", reply_to="amq.rabbitmq.reply-to")
    request = ch.expect_message()
    ch.publish(b"answer", key=request.properties.reply_to or "")
    ch.expect_message()
    ch.close()


@scenario
def consumer_cancelled(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("work")
    for _ in range(3):
        ch.consume("work", "tag")
        ch.call(commands.Basic.Cancel(consumer_tag="tag"), commands.Basic.CancelOk)
    delete_queue(ch, "work")
    ch.close()


# Queues, of a channel that goes on


@scenario
def queue_deleted(pair: Pair) -> None:
    ch = Channel(lasting(pair), 1)
    if not ch.client.connection.channels:
        ch.open()
    arguments = {"x-max-length": 3, "x-max-priority": 5, "x-single-active-consumer": True}
    ch.declare("deleted", arguments=arguments)
    for number in range(5):
        ch.publish(b"m", key="deleted", priority=number, expiration="60000")
    delete_queue(ch, "deleted")
    ch.publish(b"elsewhere", key="nowhere")  # what the channel remembers of addresses is of today


@scenario
def queue_deleted_with_deliveries_out(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("deleted")
    for _ in range(6):
        ch.publish(b"m", key="deleted")
        ch.get("deleted", no_ack=False)
    delete_queue(ch, "deleted")
    ch.ack(1)
    ch.ack(3, multiple=True)
    ch.nack(4)
    ch.reject(5, requeue=False)
    ch.close()


@scenario
def queue_expired(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("expiring", arguments={"x-expires": 1000, "x-message-ttl": 500})
    ch.publish(b"m", key="expiring")
    pair.advance(5000)
    ch.close()


@scenario
def queue_auto_deleted(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("auto", auto_delete=True)
    ch.consume("auto", "tag")
    ch.publish(b"m", key="auto")
    client.take_all()
    ch.call(commands.Basic.Cancel(consumer_tag="tag"), commands.Basic.CancelOk)
    ch.close()


@scenario
def queue_with_retries_and_dead_letters(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("dead", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    at_least_once = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    ch.declare("keeps", durable=True, arguments=at_least_once)
    ch.declare(
        "tries", arguments={"x-retry-initial": 1000, "x-dead-letter-exchange": "", "x-message-deduplication": True}
    )
    for queue in ("keeps", "tries"):
        for number in range(4):
            ch.publish(b"m", key=queue, headers={"x-deduplication-header": str(number)})
            message = ch.get(queue, no_ack=False)
            assert message is not None
            ch.reject(message.tag, requeue=queue == "tries")
    for queue in ("tries", "keeps", "dead"):
        delete_queue(ch, queue)
    ch.close()


@scenario
def queue_with_a_loan(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("lends")
    ch.publish(b"m", key="lends")
    queue = pair.broker.vhosts["/"].queues["lends"]
    message = queue.fetch()
    assert message is not None
    queue.leases = Leases(queue)
    queue.leases.lease(message, 60_000)
    del queue
    delete_queue(ch, "lends")
    ch.close()


# Exchanges and vhosts


@scenario
def exchanges_of_every_kind(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("bound", exclusive=True)
    kinds = (
        "direct",
        "fanout",
        "topic",
        "headers",
        "x-consistent-hash",
        "x-modulus-hash",
        "x-random",
        "x-recent-history",
    )
    for kind in kinds:
        ch.declare_exchange(f"of {kind}", kind)
        ch.bind("bound", f"of {kind}", "1")
        ch.bind_exchange(f"of {kind}", "amq.topic", "a.#")
        ch.publish(b"m", f"of {kind}", "1")
        ch.publish(b"m", f"of {kind}", "1", headers={"x-delay": 100})
    pair.advance(1000)
    for kind in kinds:
        ch.call(commands.Exchange.Delete(exchange=f"of {kind}"), commands.Exchange.DeleteOk)
    delete_queue(ch, "bound")
    ch.close()


@scenario
def exchange_auto_deleted(pair: Pair) -> None:
    client = lasting(pair)
    ch = client.channel(7)
    ch.declare("bound", exclusive=True)
    ch.declare_exchange("auto", "topic", auto_delete=True)
    ch.bind("bound", "auto", "a.*.b.#")
    ch.publish(b"m", "auto", "a.x.b")
    delete_queue(ch, "bound")
    ch.close()


@scenario
def vhost_deleted(pair: Pair) -> None:
    broker = pair.broker
    broker.turn.begin()
    broker.set_vhost("away", is_traced=True)
    broker.set_permission("guest", "away", Permission(".*", ".*", ".*"))
    broker.turn.finish()
    client = pair.connect(vhost="away")
    ch = client.channel()
    work(ch)
    client.take_all()
    ch.declare_exchange("x", "topic")
    ch.bind("work", "x", "#")
    for mode in (1, 2):
        ch.publish(b"m", "x", "k", delivery_mode=mode, headers={"x-delay": 100_000})
        ch.publish(b"m", "x", "k", delivery_mode=mode, headers={"x-delay": 3000})
    broker.turn.begin()
    broker.delete_vhost("away")
    broker.turn.finish()
    client.drop()
    ended(pair, client)


class PromptPair(DurablePair):
    """Commits whatever there is to commit, at once."""

    def settle(self) -> None:
        super().settle()
        self.commit_all()


def check(pair: Pair, come_and_go: Scenario) -> None:
    with live_objects() as alive:
        come_and_go(pair)  # caches are filled, what is made on first use is made
        before = alive()
        for _ in range(3):
            come_and_go(pair)
        assert alive() - before == Counter()


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_ends_is_freed_by_reference_counting(name: str) -> None:
    check(Pair(), SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_ends_on_a_durable_broker_is_freed_by_reference_counting(name: str) -> None:
    disk = SimulatedDisk()
    try:
        check(PromptPair(disk, disk.open(), Recovered(), 1_700_000_000_000, queue_window=100), SCENARIOS[name])
    finally:
        disk.close()

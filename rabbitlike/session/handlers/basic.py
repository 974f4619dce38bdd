"""basic.*: consume, cancel, get, qos, recover. Publishing and settling are hot: see session/publisher.py and
session/channel.py."""

from __future__ import annotations

from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, cast

from pamqp import commands

from rabbitlike.broker.message import cost_of, with_delivery_count
from rabbitlike.broker.publishing.reply_names import DIRECT_REPLY
from rabbitlike.broker.publishing.verbs import check_fetch, count_fetch
from rabbitlike.broker.queue_settings.arguments import check_consumer, consumer_ack_timeout, consumer_priority
from rabbitlike.protocol import methods
from rabbitlike.protocol.errors import not_allowed, not_implemented, precondition_failed
from rabbitlike.session.consumer import Consumer
from rabbitlike.session.handlers.queue import expand_name
from rabbitlike.session.reply import ReplyConsumer
from rabbitlike.session.unacked import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.protocol.tables import Table
    from rabbitlike.session.channel import Channel


def qos(channel: Channel, method: commands.Basic.Qos) -> None:
    if method.prefetch_size != 0:
        raise not_implemented(f"prefetch_size!=0 ({method.prefetch_size})")
    if not method.global_:
        # parity: applies to future consumers; existing ones keep theirs. It also removes the channel-wide limit.
        channel.prefetch_count = method.prefetch_count
    channel.unacked.limit = method.prefetch_count if method.global_ else 0
    channel.wake_consumers()
    channel.send(methods.make(commands.Basic.QosOk))


def consume(channel: Channel, method: commands.Basic.Consume) -> None:
    tag = method.consumer_tag or f"amq.ctag-{token_urlsafe(16)}"
    # parity: the tag of a direct-reply consumer does not count as used.
    if tag in channel.consumers:
        raise not_allowed(f"attempt to reuse consumer tag '{tag}'")
    limit = channel.connection.settings.consumer_max_per_channel
    if 0 < limit <= len(channel.consumers):
        raise not_allowed(f"reached maximum ({limit}) of consumers per channel")
    if method.queue == DIRECT_REPLY:
        _consume_replies(channel, method, tag)
        return
    name = expand_name(channel, method.queue)
    channel.permit("read", "queue", name)
    queue = channel.vhost.queue(name, channel.connection)
    arguments = cast("Table", method.arguments)
    check_consumer(arguments, queue=name, vhost=channel.vhost.name, queue_type=queue.settings.queue_type)
    consumer = Consumer(
        tag,
        queue,
        channel,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        prefetch_count=channel.prefetch_count,
        priority=consumer_priority(arguments, queue=name, vhost=channel.vhost.name),
        arguments=arguments,
        ack_timeout_ms=consumer_ack_timeout(arguments, queue=name, vhost=channel.vhost.name),
    )
    queue.add_consumer(consumer, method.exclusive)
    channel.consumers[tag] = consumer
    if not method.nowait:
        # Deliveries start at the end of the turn, so consume-ok comes first.
        channel.send(methods.make(commands.Basic.ConsumeOk, consumer_tag=tag))


def _consume_replies(channel: Channel, method: commands.Basic.Consume, tag: str) -> None:
    if channel.reply_consumer is not None:
        raise precondition_failed("reply consumer already set")
    if not method.no_ack:
        raise precondition_failed("reply consumer cannot acknowledge")
    consumer = ReplyConsumer(tag, channel.number, channel.connection, channel.outlet, channel.unacked)
    channel.reply_consumer = consumer
    channel.vhost.replies[consumer.name] = consumer
    if not method.nowait:
        channel.send(methods.make(commands.Basic.ConsumeOk, consumer_tag=tag))


def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    tag = method.consumer_tag or ""
    if channel.reply_consumer is not None and channel.reply_consumer.tag == tag:
        channel.vhost.replies.pop(channel.reply_consumer.name, None)
        channel.reply_consumer = None
    elif (consumer := channel.consumers.pop(tag, None)) is not None:
        consumer.queue.remove_consumer(consumer)
    if not method.nowait:
        channel.send(methods.make(commands.Basic.CancelOk, consumer_tag=tag))


def cancel_ok(channel: Channel, method: commands.Basic.CancelOk) -> None:
    """parity: the broker's basic.cancel requires no answer; some clients send one."""


def get(channel: Channel, method: commands.Basic.Get) -> None:
    name = expand_name(channel, method.queue)
    channel.permit("read", "queue", name)
    queue = channel.vhost.queue(name, channel.connection)
    check_fetch(queue)
    if channel.outlet.is_full and not method.no_ack:
        limit = channel.outlet.unacked_limit
        raise precondition_failed(f"connection holds more than {limit} bytes unacknowledged (unacked_limit)")
    channel.connection.run(partial(_get, channel, queue, method))


def _get(channel: Channel, queue: Queue, method: commands.Basic.Get) -> bool:
    """Answer basic.get. True to be called again: all messages so far had expired, a large message is being read, or a
    transaction is being applied."""
    if not channel.is_open:
        return False  # closed while it waited
    if queue.deposits or queue.is_reading():
        return True
    message = queue.fetch()
    if message is None and queue.is_late:
        return True
    if message is None:
        for counters in (queue.counters, channel.counters, channel.pair_with(queue), channel.totals):
            counters.get_empty += 1
        channel.send(methods.make(commands.Basic.GetEmpty, cluster_id=""))
        return False
    unacked = channel.unacked
    unacked.last_tag += 1
    properties = with_delivery_count(message) if message.attempts or queue.counts_deliveries else message.properties
    channel.outlet.put_get_ok(
        channel.number,
        unacked.last_tag,
        message.attempts > 0,
        message.address,
        queue.message_count,
        properties,
        message.body,
        channel.outlet.payload_max,
    )
    channel.outlet.mark()
    if queue.hold_until:
        channel.connection.hold_deliveries(queue.hold_until)
    count_fetch(queue, message, channel.counters, channel.pair_with(queue), channel.totals, no_ack=method.no_ack)
    if queue.tracer is not None:
        queue.tracer.fetched(message, channel.client(), method.no_ack)
    if method.no_ack:
        queue.settle(message)
    else:
        delivery = Delivery(unacked.last_tag, message, queue, None, channel.turn.now_ms)
        unacked.add(delivery)
        channel.outlet.delivered(cost_of(message))
        if deadline_ms := channel.deadline_of(queue):
            channel.deadlines.watch(delivery, deadline_ms)
        if timeout_ms := channel.timeout_of(queue):
            channel.timeout.watch(timeout_ms)
    return False


def recover(channel: Channel, method: commands.Basic.Recover) -> None:
    _recover(channel, method.requeue, partial(channel.send, methods.make(commands.Basic.RecoverOk)))


def recover_async(channel: Channel, method: commands.Basic.RecoverAsync) -> None:
    _recover(channel, method.requeue, None)


def _recover(channel: Channel, requeue: bool, then: Callable[[], None] | None) -> None:
    if not requeue:
        raise not_implemented("requeue=false")
    channel.connection.run(partial(channel.recover, channel.unacked.last_tag), then)


HANDLERS: dict[int, Callable[[Channel, Any], None]] = {
    commands.Basic.Qos.index: qos,
    commands.Basic.Consume.index: consume,
    commands.Basic.Cancel.index: cancel,
    commands.Basic.CancelOk.index: cancel_ok,
    commands.Basic.Get.index: get,
    commands.Basic.Recover.index: recover,
    commands.Basic.RecoverAsync.index: recover_async,
}

"""A consumer: subscribes to a queue and sends its messages as basic.deliver on its channel's connection.

It takes messages while the connection's outlet is open and the channel is below its prefetch limit. With acks, the
consumer must also be below its own prefetch and the connection below its unacked limit.
"""

from typing import TYPE_CHECKING

from rabbitlike.broker.message import Message, cost_of, with_delivery_count
from rabbitlike.broker.ports import ClientName, Subscriber
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.queues.runs import find_run, take_run
from rabbitlike.broker.statistics.counters import Counters
from rabbitlike.broker.turn import Turn
from rabbitlike.protocol.frames import DeliveryTemplate
from rabbitlike.protocol.tables import Table
from rabbitlike.session import views
from rabbitlike.session.outlet import Outlet
from rabbitlike.session.timeout import AckTimeout
from rabbitlike.session.unacked import Delivery, Unacked, make_delivery

if TYPE_CHECKING:
    from rabbitlike.session.channel import Channel

#: Octets of a method frame before its arguments.
FIRST_OCTETS = 11


class Consumer(Subscriber):
    """A consumer made by basic.consume."""

    __slots__ = (
        "_ack_timeout_ms",
        "_any_timeout",
        "_counters",
        "_deadline_ms",
        "_is_timed",
        "_last_address",
        "_last_properties",
        "_number",
        "_outlet",
        "_tag_octets",
        "_template",
        "_timeout",
        "_timeout_ms",
        "_totals",
        "_turn",
        "_unacked",
        "arguments",
        "channel",
        "exclusive",
        "prefetch_count",
        "queue",
    )

    def __init__(
        self,
        tag: str,
        queue: Queue,
        channel: "Channel",
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch_count: int,
        priority: int,
        arguments: Table,
        ack_timeout_ms: int | None = None,
    ) -> None:
        super().__init__(tag, priority)
        self.queue = queue
        self.channel = channel
        self.no_ack = no_ack
        self.exclusive = exclusive
        #: 0: no limit. parity: it does not limit consumers without acks.
        self.prefetch_count = prefetch_count
        self.arguments = arguments
        octets = tag.encode("utf-8", "surrogateescape")
        self._tag_octets = bytes((len(octets),)) + octets
        self._number = channel.number
        self._outlet: Outlet = channel.outlet
        self._unacked: Unacked = channel.unacked
        self._turn: Turn = channel.turn
        self._counters: Counters = channel.counters
        self.pair = channel.pair_with(queue)
        self._totals: Counters = channel.totals
        #: Frames of the last delivery without tag and body; a delivery with the same address and properties reuses
        #: them.
        self._template: DeliveryTemplate | None = None
        self._last_address = b""
        self._last_properties = b""
        #: Checks the ack timeout; None if there is no timeout.
        self._timeout: AckTimeout | None = None
        self._timeout_ms = 0
        #: The ack deadline: the value the consumer asked for, and the value in force.
        self._ack_timeout_ms = ack_timeout_ms
        self._deadline_ms = 0
        self._is_timed = False
        self._any_timeout = None if no_ack else channel.timeout
        self.retime()

    def takes(self) -> bool:
        if not self._outlet.open:
            return False
        if not self.no_ack and (
            self._outlet.is_full or (self.prefetch_count != 0 and self.held >= self.prefetch_count)
        ):
            return False
        # parity: the channel's limit also applies to consumers without acks.
        return self._unacked.limit == 0 or self._unacked.held < self._unacked.limit

    def deliver(self, message: Message) -> None:
        unacked = self._unacked
        unacked.last_tag += 1
        properties = message.properties
        if message.attempts > 0 or self.queue.counts_deliveries:
            properties = with_delivery_count(message)
        if (
            self._template is not None
            and message.address is self._last_address
            and properties is self._last_properties
            and 0 < len(message.body) <= self._outlet.payload_max
            and message.attempts == 0
        ):
            self._outlet.put_like(self._template, unacked.last_tag, message.body)
        else:
            self._put(message, properties, unacked.last_tag)
        self._outlet.mark()
        self._counters.active_at_ms = self._turn.now_ms
        if self.no_ack:
            self.queue.counters.deliver_no_ack += 1
            self._counters.deliver_no_ack += 1
            self.pair.deliver_no_ack += 1
            self._totals.deliver_no_ack += 1
            self.queue.settle(message)
        else:
            self.queue.counters.deliver += 1
            self._counters.deliver += 1
            self.pair.deliver += 1
            self._totals.deliver += 1
            self.held += 1
            unacked.held += 1
            delivery = make_delivery(unacked.last_tag, message, self.queue, self, self._turn.now_ms)
            unacked.add(delivery)
            self._outlet.delivered(cost_of(message))
            if self._is_timed:
                self._watch(delivery)

    def deliver_more(self, like: Message) -> None:
        if (
            not self._outlet.open
            or (self._outlet.is_full and not self.no_ack)
            or self._template is None
            or like.address is not self._last_address
            or like.properties is not self._last_properties
        ):
            return
        credit = self._outlet.limit  # an upper bound: no message is smaller than an octet
        if not self.no_ack:
            if self.prefetch_count != 0:
                credit = min(credit, self.prefetch_count - self.held)
            if self._unacked.limit != 0:
                credit = min(credit, self._unacked.limit - self._unacked.held)
        run = find_run(self.queue, like, credit) if credit > 0 else None
        if run:
            self._deliver_run(run, self._template)

    def _deliver_run(self, run: list[Message], like: DeliveryTemplate) -> None:
        """Deliver messages until the outlet is full; the last one may exceed its limit."""
        outlet = self._outlet
        left = outlet.limit - outlet.size
        body_bytes = 0
        bodies: list[bytes] = []
        for message in run:
            size = len(message.body)
            if left <= 0 or size > outlet.payload_max:
                break
            left -= like.size + size
            body_bytes += size
            bodies.append(message.body)
        count = len(bodies)
        if count == 0:
            return
        del run[count:]
        unacked = self._unacked
        tag = unacked.last_tag + 1
        unacked.last_tag += count
        outlet.put_run(like, tag, bodies, body_bytes)
        outlet.mark()
        self._counters.active_at_ms = self._turn.now_ms
        if self.no_ack:
            self.queue.counters.deliver_no_ack += count
            self._counters.deliver_no_ack += count
            self.pair.deliver_no_ack += count
            self._totals.deliver_no_ack += count
        else:
            self.queue.counters.deliver += count
            self._counters.deliver += count
            self.pair.deliver += count
            self._totals.deliver += count
            self.held += count
            unacked.held += count
            deliveries = []
            for message in run:
                deliveries.append(make_delivery(tag, message, self.queue, self, self._turn.now_ms))
                tag += 1
            unacked.add_run(deliveries)
            outlet.delivered(count * cost_of(run[0]) + body_bytes - count * len(bodies[0]))
            if self._is_timed:
                for delivery in deliveries:
                    self._watch(delivery)
        take_run(self.queue, run, self)

    def _watch(self, delivery: Delivery) -> None:
        if self._timeout is not None:
            self._timeout.watch(self._timeout_ms)
        if self._deadline_ms:
            self.channel.deadlines.watch(delivery, self._deadline_ms)

    def _put(self, message: Message, properties: bytes, delivery_tag: int) -> None:
        """Put a delivery that differs from the last one, and remember it as a template for the next."""
        if message.attempts > 0:
            self._counters.redeliver += 1
            self.pair.redeliver += 1
            self._totals.redeliver += 1
        outlet = self._outlet
        start = outlet.size
        outlet.put_deliver(
            self._number,
            self._tag_octets,
            delivery_tag,
            message.attempts > 0,
            message.address,
            properties,
            message.body,
            outlet.payload_max,
        )
        size = len(message.body)
        if message.attempts == 0 and 0 < size <= outlet.payload_max:
            if message.address is self._last_address and properties is self._last_properties:
                # The second of its kind: make a template.
                frames = bytes(outlet.data[start : outlet.size])
                self._template = DeliveryTemplate(frames, FIRST_OCTETS + len(self._tag_octets), len(properties), size)
            else:
                self._template = None  # the template is of another kind
            self._last_address = message.address
            self._last_properties = properties

    def retime(self) -> None:
        timeout = self._any_timeout
        if timeout is None:
            return
        self._timeout_ms = timeout.timeout_of(self.queue)
        self._timeout = timeout if self._timeout_ms else None
        self._deadline_ms = self.channel.deadline_of(self.queue, self._ack_timeout_ms)
        self._is_timed = self._timeout is not None or self._deadline_ms != 0
        if self._timeout is not None and self.held:
            # The new timeout also applies to outstanding deliveries: check them now.
            self._timeout.watch(0)

    def hold(self, number: int) -> None:
        self.channel.connection.hold_deliveries(number)

    def cancel(self) -> None:
        self.channel.drop_consumer(self)

    def view(self) -> dict[str, object]:
        return views.consumer(self)

    def client(self) -> ClientName:
        return self.channel.client()

"""Delayed messages of a vhost: `x-delay` and `x-deliver-at` on any exchange.

Messages due soon are in the schedule, in order of due time and then of publishing. The others are on disk only, in
buckets of time, and are read back a batch at a time shortly before they are due; so memory does not grow with the
number of delayed messages. When due, a message is routed by the exchange it was published to, as if published then; it
leaves here and enters its queues in one turn, so in one commit. Transient messages are in memory only. One timer runs.
"""

from __future__ import annotations

import logging
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.delays.log import FINENESS, NARROWEST, Bucket, DelayBatch, DelayLog, level_for
from rabbitlike.broker.delays.routes import Routes, Source
from rabbitlike.broker.delays.schedule import NEVER, Schedule
from rabbitlike.broker.message import Message, make_message
from rabbitlike.broker.publishing.copies import take_copies
from rabbitlike.broker.publishing.router import cacheable, try_route
from rabbitlike.broker.queues.deposit import deposit, inlets_of
from rabbitlike.broker.queues.storage.record import unpack
from rabbitlike.broker.states import GONE, LOGGED, READY
from rabbitlike.protocol.constants import EXPIRATION
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.storage.api import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.clock import Timer
    from rabbitlike.storage.api import Batch

log = logging.getLogger(__name__)

#: Messages that waited for space in memory are read at the latest this long before they are due.
SOON_MS: Final = 200
#: Messages just written stay in memory if they will be scheduled within this time and the window is not full.
KEEP_MS: Final = 30_000
#: Small batches of buckets that open later than this are merged; the others are gone soon.
MERGE_MS: Final = 60_000
#: A wide bucket with more octets than this is spread over narrower ones before its messages are scheduled.
SPREAD_BYTES: Final = 1 << 20
#: The memory limit for a vhost's delays, in windows of a queue.
WINDOWS: Final = 4
#: Messages that are routed between two checks of the turn's time.
STRIDE: Final = 250
#: The timer sleeps at most this long, or this part of a longer time, because the machine's clock may be set meanwhile.
SLEEP_MS: Final = 60_000
SLEEP_PART: Final = 16
#: Messages due within this time always go to the narrowest buckets.
NEAR_MS: Final = 1 << NARROWEST + FINENESS + 1
#: More bits than a time has after shifting by the width of those buckets.
SOURCE_BITS: Final = 44
#: The expiration flag in the first octet of the properties.
EXPIRES: Final = EXPIRATION >> 8


class Delays:
    """The delays of one vhost."""

    __slots__ = (
        "_log",
        "_near",
        "_next_position",
        "_opening",
        "_sweep_at",
        "_timer",
        "_turn",
        "_unmerged",
        "_unread",
        "_vhost",
        "_wakes_at_ms",
        "_window",
        "buckets",
        "cancelled",
        "delivered",
        "dropped",
        "pending",
        "routes",
        "schedule",
        "transient",
    )

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._turn = vhost.broker.turn
        self._window = WINDOWS * vhost.broker.settings.queue_window
        self._log: DelayLog | None = None
        self._next_position = 1
        #: How many messages are delayed now, and what happened to the others since the start.
        self.pending = 0
        self.delivered = 0
        self.cancelled = 0
        self.dropped = 0
        #: Messages due soon and all transient ones; and the transient ones by position.
        self.schedule = Schedule()
        self.transient: dict[int, Message] = {}
        #: Buckets of stored messages, by level.
        self.buckets: dict[int, Bucket] = {}
        #: The buckets of messages due before long, by the number of the exchange and the time.
        self._near: dict[int, Bucket] = {}
        #: Buckets to open, by time; a heap.
        self._opening: list[tuple[int, int]] = []
        #: Batches of open buckets that are not scheduled yet, by the first message they may contain; a heap.
        self._unread: list[tuple[int, int, int, DelayBatch]] = []
        self._unmerged: dict[Bucket, None] = {}
        self._sweep_at = 64
        self.routes = Routes(self._record)
        self._timer: Timer | None = None
        self._wakes_at_ms = NEVER

    # Adding and removing

    def add(self, address: bytes, properties: bytes, body: bytes, persistent: bool, priority: int, due_ms: int) -> None:
        """Delay a message until ``due_ms``. A persistent one is safe with the commit of this turn."""
        now_ms = self._turn.now_ms
        message = make_message(address, properties, body, persistent, priority, now_ms)
        message.position = self._next_position
        # Here, expires_at_ms is the due time; the message's own expiration starts then.
        message.expires_at_ms = due_ms
        self._next_position += 1
        self.pending += 1
        source = self.routes.of(address).source
        source.count += 1
        if persistent and self._make_log() is not None:
            assert self._log is not None
            if due_ms <= self._log.mark_ms:
                self._lower_mark(due_ms - 1)
            self._store(self._log, source.number, message, now_ms)
        else:
            self.transient[message.position] = message
            self.schedule.put(message)
        if due_ms < self._wakes_at_ms:
            self._arm(now_ms)

    def cancel(self, message: Message) -> bool:
        """Delete a message found in this turn. Return False if it is gone already."""
        if message.state != READY:
            return False
        self._end(message, self.routes.of(message.address).source)
        self.cancelled += 1
        return True

    def count_of(self, exchange: str) -> int:
        """Return how many messages are delayed for this exchange."""
        source = self.routes.by_name.get(exchange)
        return 0 if source is None else source.count

    def next_due_ms(self) -> int | None:
        """Return when the next message is due, as far as known without reading from disk."""
        times = [self.schedule.first_live_ms()]
        for bucket in self.buckets.values():
            if not bucket.is_open:
                times += [batch.due_ms for batch in bucket.batches.values()]
                times += [message.expires_at_ms for message in bucket.fresh if message.state == READY]
        times += [entry[0] for entry in self._unread if entry[3].live]
        due_ms = min(times)
        return None if due_ms == NEVER else due_ms

    @property
    def held_bytes(self) -> int:
        """The approximate memory that stored messages take."""
        return 0 if self._log is None else self._log.held_bytes

    def delete(self) -> None:
        """Drop all delayed messages, because the vhost is being deleted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for bucket in self.buckets.values():
            bucket.detach()
        self.schedule.clear()
        self._near.clear()
        self._opening.clear()
        self._unread.clear()
        self._unmerged.clear()
        self.buckets.clear()
        self.transient.clear()
        self.pending = 0
        if self._log is not None:
            self._log.delete()
            self._vhost.broker.topology.remove_delays(self._vhost.name)
            self._log = None
        self.routes.detach()
        self._vhost = None  # type: ignore[assignment]  # so that reference counting frees both

    def _store(self, stored: DelayLog, source: int, message: Message, now_ms: int) -> None:
        bucket: Bucket | None
        if message.expires_at_ms - now_ms < NEAR_MS:
            # All of them are in buckets of the same width: a lookup is faster than computing the bucket.
            key = message.expires_at_ms >> NARROWEST | source << SOURCE_BITS
            bucket = self._near.get(key)
            if bucket is None:
                bucket = self._near[key] = self._bucket_for(source, message, now_ms)
        else:
            bucket = self._bucket_for(source, message, now_ms)
        stored.add(bucket, message)
        if bucket.is_open:
            self.schedule.put(message)

    def _bucket_for(self, source: int, message: Message, now_ms: int) -> Bucket:
        level = level_for(source, message.expires_at_ms, now_ms)
        return self.buckets.get(level) or self._make_bucket(level, now_ms)

    def _end(self, message: Message, source: Source) -> None:
        message.state = GONE
        message.body = b""  # free the octets although others may still hold the object
        self.pending -= 1
        source.count -= 1
        if message.logged == LOGGED:
            assert self._log is not None
            self._log.settle(message)
        else:
            self.transient.pop(message.position, None)

    def _record(self) -> None:
        """Store what the next run needs beside the messages."""
        if self._log is not None:
            self._vhost.broker.topology.set_delays(self._vhost.name, self._log.queue_id, self.routes.names)

    # Storage

    def _make_log(self) -> DelayLog | None:
        broker = self._vhost.broker
        if self._log is None and broker.journal is not None:
            self._log = DelayLog(broker.give_queue_id(), broker.journal, self._on_written)
            self._record()
        return self._log

    def recover(self, queue_id: int, names: Sequence[str], batches: Iterable[Batch], mark: tuple[int, int]) -> None:
        """Restore what the last run left: descriptors only. Overdue messages are routed at once, in order."""
        broker = self._vhost.broker
        assert broker.journal is not None
        self._log = DelayLog(queue_id, broker.journal, self._on_written)
        self._log.next_position, self._log.mark_ms = mark
        self.routes.recover(names)
        now_ms = self._turn.now_ms
        for batch in batches:
            bucket = self.buckets.get(batch.level) or self._make_bucket(batch.level, now_ms)
            stored = DelayBatch(self._log, bucket, batch)
            self._log.next_position = max(self._log.next_position, batch.last_position + 1)
            if stored.live == 0 or bucket.source >= len(names):
                self._log.remove(stored)
                continue
            bucket.add(stored)
            self.pending += stored.live
            self.routes.by_number[bucket.source].count += stored.live
            if bucket.is_open:
                heappush(self._unread, (stored.due_ms, stored.first_position, stored.batch_id, stored))
        self._next_position = self._log.next_position
        self._arm(now_ms)

    def _make_bucket(self, level: int, now_ms: int) -> Bucket:
        if len(self.buckets) >= self._sweep_at:
            for idle in [each for each in self.buckets.values() if each.is_open and each.is_empty]:
                del self.buckets[idle.level]
            self._near.clear()
            self._sweep_at = 2 * len(self.buckets) + 64
        bucket = self.buckets[level] = Bucket(level)
        if bucket.opens_at_ms <= now_ms:
            bucket.is_open = True
        else:
            heappush(self._opening, (bucket.opens_at_ms, level))
            self._arm(now_ms)
        return bucket

    def _on_written(self, batches: list[DelayBatch]) -> None:
        """Free or merge batches that are now on disk."""
        stored = self._log
        if stored is None:
            return
        now_ms = self._turn.now_ms
        for batch in batches:
            bucket = batch.bucket
            if bucket.is_open:
                continue
            opens_in_ms = bucket.opens_at_ms - now_ms
            if opens_in_ms > KEEP_MS or stored.held_bytes > self._window:
                stored.drop_messages(batch)
            if opens_in_ms > MERGE_MS and bucket.small_batches():
                self._unmerged[bucket] = None
        if self._unmerged:
            self._arm(now_ms)

    def read(self, batch: DelayBatch) -> list[Message]:
        """Return the messages of a batch that are not gone, from memory or from disk."""
        stored = self._log
        if stored is None or batch.live == 0:
            return []
        if batch.messages is not None:
            return [message for message in batch.messages if message.state == READY]
        try:
            messages = unpack(self._vhost.broker.store.read(batch.batch_id))
        except (StorageError, ValueError) as error:
            log.error(
                "%d delayed messages in vhost '%s' cannot be read and are skipped (batch %d): %s",
                batch.live,
                self._vhost.name,
                batch.batch_id,
                error,
            )
            # The batch stays on disk, where it may be repaired.
            self._discount(batch, batch.live)
            batch.bucket.drop(batch)
            return []
        kept: list[Message] = []
        for message in messages:
            if not batch.is_settled(message.index):
                message.batch = batch
                message.logged = LOGGED
                if message.expires_at_ms > stored.mark_ms:
                    kept.append(message)
                else:
                    # It was routed before the last restart.
                    batch.set_bit(message.index)
                    self._discount(batch, 1)
        if batch.live == 0:
            stored.remove(batch)
        return kept

    def _discount(self, batch: DelayBatch, count: int) -> None:
        batch.live -= count
        self.pending -= count
        self.routes.by_number[batch.bucket.source].count -= count

    def _lower_mark(self, mark_ms: int) -> None:
        """Set the mark back after the machine's clock was set back. Messages that are gone get bits, so that they do
        not come back."""
        stored = self._log
        assert stored is not None
        while self._unread and self._unread[0][0] <= stored.mark_ms:
            self._schedule_batch(stored, heappop(self._unread)[3])
        for bucket in self.buckets.values():
            for batch in bucket.batches.values():
                for message in batch.messages or ():
                    if message.state == GONE:
                        batch.settle(message.index)
                if any(batch.settled) and not batch.is_dirty:
                    batch.is_dirty = True
                    stored.note_dirty(batch)
        stored.set_mark(mark_ms)

    # Timing

    def _arm(self, now_ms: int) -> None:
        """Start the timer for the next thing to do."""
        at_ms = self.schedule.first_ms()
        if self._opening and self._opening[0][0] < at_ms:
            at_ms = self._opening[0][0]
        if self._unmerged:
            at_ms = now_ms
        elif self._unread:
            has_room = self._log is not None and self._log.held_bytes < self._window
            at_ms = now_ms if has_room else min(at_ms, self._unread[0][0] - SOON_MS)
        if at_ms == NEVER:
            return
        if at_ms > now_ms + SLEEP_MS:
            at_ms = now_ms + max(SLEEP_MS, (at_ms - now_ms) // SLEEP_PART)
        elif at_ms <= now_ms:
            at_ms = now_ms + self._turn.is_store_behind()  # a commit frees memory
        if at_ms < self._wakes_at_ms:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at_ms = at_ms
            self._timer = self._turn.at(at_ms - now_ms, self._work)

    def _work(self) -> None:
        """Do a little of what is due, and set the timer for the rest."""
        self._timer = None
        self._wakes_at_ms = NEVER
        try:
            self._do_some(self._turn.now_ms)
        finally:
            self._arm(self._turn.now_ms)

    def _do_some(self, now_ms: int) -> None:
        stored = self._log
        if stored is not None:
            while self._opening and self._opening[0][0] <= now_ms:
                self._open(heappop(self._opening)[1])
            if self._unread and (stored.held_bytes < self._window or self._unread[0][0] - SOON_MS <= now_ms):
                self._schedule_batch(stored, heappop(self._unread)[3])
        self._release(now_ms)
        if stored is not None and self._unmerged:
            bucket = next(iter(self._unmerged))
            self._merge(stored, bucket)
            if not bucket.small_batches():
                del self._unmerged[bucket]

    def _open(self, level: int) -> None:
        bucket = self.buckets.get(level)
        if bucket is None or bucket.is_open:
            return
        bucket.is_open = True
        self._unmerged.pop(bucket, None)
        bucket.is_spread = sum([batch.size for batch in bucket.batches.values()]) > SPREAD_BYTES
        for batch in bucket.batches.values():
            heappush(self._unread, (batch.due_ms, batch.first_position, batch.batch_id, batch))
        for message in bucket.fresh:
            if message.state == READY:
                self.schedule.put(message)

    def _schedule_batch(self, stored: DelayLog, batch: DelayBatch) -> None:
        """Schedule the messages of a batch or, if its bucket is wide, move them to narrower buckets."""
        messages = self.read(batch)
        if batch.live == 0:
            return
        now_ms = self._turn.now_ms
        bucket = batch.bucket
        if bucket.is_spread and bucket.ends_at_ms > now_ms + KEEP_MS:
            stored.remove(batch)
            for message in messages:
                self._store(stored, bucket.source, message, now_ms)
            return
        if batch.messages is None:
            stored.keep(batch, messages)
        for message in messages:
            self.schedule.put(message)

    def _merge(self, stored: DelayLog, bucket: Bucket) -> None:
        """Merge many small batches into one."""
        messages: list[Message] = []
        for batch in bucket.small_batches():
            messages += self.read(batch)
            if batch.live:
                stored.remove(batch)
        messages.sort(key=lambda message: message.position)
        for message in messages:
            stored.add(bucket, message)

    def _release(self, now_ms: int) -> None:
        """Route due messages while the turn has time and the store keeps up."""
        while not self._turn.is_store_behind() and self._release_some(now_ms):
            if self._turn.is_spent(STRIDE):
                break

    def _release_some(self, now_ms: int) -> bool:
        """Route the first due messages, in order. Return whether there were any."""
        while self._unread and self._unread[0][3].live == 0:
            heappop(self._unread)
        # Messages not read yet may have to go first.
        barrier_ms, barrier_position = self._unread[0][:2] if self._unread else (NEVER, 0)
        due: list[Message] = []
        first_ms = self.schedule.first_ms()
        while first_ms <= now_ms and first_ms <= barrier_ms and len(due) < STRIDE:
            if not self.schedule.take_first(due, STRIDE, barrier_position if first_ms == barrier_ms else NEVER):
                break  # the rest must wait for the barrier or the next turn
            first_ms = self.schedule.first_ms()
        if not due:
            return False
        self._mark(due, min(barrier_ms, self.schedule.first_ms()))
        for message in due:
            try:
                self._route(message, now_ms)
            except Exception:
                # The message is lost; those behind it must still be routed.
                log.exception("a delayed message in vhost '%s' could not be routed", self._vhost.name)
        return True

    def _mark(self, due: list[Message], next_due_ms: int) -> None:
        """Set the mark, the number that covers all these messages, which are gone. It excludes a due time that more
        messages have."""
        stored_due_ms = 0
        for message in due:
            if message.logged == LOGGED and message.expires_at_ms > stored_due_ms:
                stored_due_ms = message.expires_at_ms
        if stored_due_ms:
            assert self._log is not None
            mark_ms = stored_due_ms if next_due_ms > stored_due_ms else stored_due_ms - 1
            if mark_ms > self._log.mark_ms:
                self._log.set_mark(mark_ms)

    def _route(self, message: Message, now_ms: int) -> None:
        vhost = self._vhost
        address, raw, body = message.address, message.properties, message.body
        if self.routes.generation != self._turn.generation:
            self.routes.forget(self._turn.generation)
        route = self.routes.of(address)
        self._end(message, route.source)
        exchange = vhost.exchanges.get(route.source.name)
        if exchange is None:
            self._drop()
            return
        if route.generation != self._turn.generation:
            route.generation = self._turn.generation
            is_plain = cacheable(exchange, vhost.exchanges)
            route.queues = try_route(exchange, (route.routing_key,), EMPTY, vhost.exchanges) if is_plain else None
            route.inlets = [] if route.queues is None else inlets_of(route.queues, exchange)
        queues, inlets = route.queues, route.inlets
        expires_at_ms = 0
        if queues is None or raw[0] & EXPIRES or b"CC" in raw:
            properties = Properties(raw)
            if properties.expiration is not None:
                expires_at_ms = now_ms + properties.expiration_ms
            keys, properties = take_copies(route.routing_key, properties)
            raw = properties.raw
            if queues is None or len(keys) > 1:
                seen = make_message(address, raw, body, message.persistent, message.priority, now_ms)
                queues = try_route(exchange, keys, properties, vhost.exchanges, seen)
                inlets = inlets_of(queues, exchange)
        exchange.counters.publish_out += len(queues)
        if not queues:
            self._drop()
            return
        self.delivered += 1
        deposit(queues, inlets, address, raw, body, message.persistent, message.priority, now_ms, expires_at_ms, None)

    def _drop(self) -> None:
        """Count a due message without a route."""
        self.dropped += 1
        self._vhost.counters.drop_unroutable += 1

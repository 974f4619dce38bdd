"""Messages of a vhost that are to be routed later: `x-delay` and `x-deliver-at` on any exchange.

Those due soon stand in line, in order of due time and then of publishing. The others are on disk only, in buckets of
time that are read back, a batch at a time, shortly before they are due; so memory does not grow with what is pending.
When due, a message is routed by the exchange it was published to, as if published then; it leaves here and enters its
queues in one turn, so in one commit. Transient messages are in memory only. There is one timer.
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

#: The last moment at which what was let wait for room in memory is read.
SOON_MS: Final = 200
#: What was written just now stays in memory if it is to be in line within so long, and there is room.
KEEP_MS: Final = 30_000
#: Small batches of buckets that open later than that are merged: the others are soon gone.
MERGE_MS: Final = 60_000
#: A wide bucket with more octets than that is spread over narrower ones before its messages come in line.
SPREAD_BYTES: Final = 1 << 20
#: Room for what is in memory of a vhost's delays, in windows of a queue.
WINDOWS: Final = 4
#: Messages that are routed between two looks at the turn's time.
STRIDE: Final = 250
#: The timer sleeps no longer than that, or a part of what it is told: the machine's clock may be set meanwhile.
SLEEP_MS: Final = 60_000
SLEEP_PART: Final = 16
#: Messages due within that are in the narrowest buckets, whatever the hour.
NEAR_MS: Final = 1 << NARROWEST + FINENESS + 1
#: More than a time shifted by the width of those has.
SOURCE_BITS: Final = 44
#: In the first octet of the properties.
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
        #: How many messages wait, and what became of the others since the start.
        self.pending = 0
        self.delivered = 0
        self.cancelled = 0
        self.dropped = 0
        #: Those due soon and all transient ones.
        self.schedule = Schedule()
        self.transient: dict[int, Message] = {}
        #: What is stored, by level.
        self.buckets: dict[int, Bucket] = {}
        #: Some of those again, for messages that are due before long: by the number of the exchange and the time.
        self._near: dict[int, Bucket] = {}
        #: Buckets that are not open, by when they are to be; a heap.
        self._opening: list[tuple[int, int]] = []
        #: Batches of open buckets that are not in line, by what they may hold first; a heap.
        self._unread: list[tuple[int, int, int, DelayBatch]] = []
        self._unmerged: dict[Bucket, None] = {}
        self._sweep_at = 64
        self.routes = Routes(self._record)
        self._timer: Timer | None = None
        self._wakes_at_ms = NEVER

    # Coming and going

    def add(self, address: bytes, properties: bytes, body: bytes, persistent: bool, priority: int, due_ms: int) -> None:
        """Hold a message until then. One that is to outlive the process is safe with the commit of this turn."""
        now_ms = self._turn.now_ms
        message = make_message(address, properties, body, persistent, priority, now_ms)
        message.position = self._next_position
        # Here it is when the message is due; what it says of its own expiration counts from then on.
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
        """Forget a message that was found in this turn. False: it is gone already."""
        if message.state != READY:
            return False
        self._end(message, self.routes.of(message.address).source)
        self.cancelled += 1
        return True

    def count_of(self, exchange: str) -> int:
        """How many wait for this exchange."""
        source = self.routes.by_name.get(exchange)
        return 0 if source is None else source.count

    def next_due_ms(self) -> int | None:
        """When the next message is due, as far as it is known without reading."""
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
        """What stored messages take in memory, roughly."""
        return 0 if self._log is None else self._log.held_bytes

    def delete(self) -> None:
        """The vhost is being deleted."""
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
            # All of them are in buckets of the same width: working out which costs more than remembering it.
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
        message.body = b""  # whoever still holds the object need not hold its octets
        self.pending -= 1
        source.count -= 1
        if message.logged == LOGGED:
            assert self._log is not None
            self._log.settle(message)
        else:
            self.transient.pop(message.position, None)

    def _record(self) -> None:
        """What the next run must know beside the messages."""
        if self._log is not None:
            self._vhost.broker.topology.set_delays(self._vhost.name, self._log.queue_id, self.routes.names)

    # What is stored

    def _make_log(self) -> DelayLog | None:
        broker = self._vhost.broker
        if self._log is None and broker.journal is not None:
            self._log = DelayLog(broker.give_queue_id(), broker.journal, self._on_written)
            self._record()
        return self._log

    def recover(self, queue_id: int, names: Sequence[str], batches: Iterable[Batch], mark: tuple[int, int]) -> None:
        """Take up what the last run left: descriptions only. What is overdue goes out at once, in order."""
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
        """These are on disk now."""
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
        """The messages of a batch that are not gone, from memory or from disk."""
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
            # It stays on disk, for whoever can mend it.
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
                    # It went out before the last restart.
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
        """The machine's clock was set back: what is gone must be told by bits, lest it come back with the mark."""
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

    # In time

    def _arm(self, now_ms: int) -> None:
        """See to it that the timer goes off in time for whatever is next."""
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
            at_ms = now_ms + self._turn.is_store_behind()  # a commit makes room
        if at_ms < self._wakes_at_ms:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at_ms = at_ms
            self._timer = self._turn.at(at_ms - now_ms, self._work)

    def _work(self) -> None:
        """The timer went off: do a little of what is to be done, and come back for the rest."""
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
        """Bring the messages of a batch in line; or, if theirs is a wide bucket, into narrower ones."""
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
        """Make one batch of many small ones."""
        messages: list[Message] = []
        for batch in bucket.small_batches():
            messages += self.read(batch)
            if batch.live:
                stored.remove(batch)
        messages.sort(key=lambda message: message.position)
        for message in messages:
            stored.add(bucket, message)

    def _release(self, now_ms: int) -> None:
        """Route what is due, as long as the turn has time and the store keeps up."""
        while not self._turn.is_store_behind() and self._release_some(now_ms):
            if self._turn.is_spent(STRIDE):
                break

    def _release_some(self, now_ms: int) -> bool:
        """Route the first of what is due, in order. Was there any?"""
        while self._unread and self._unread[0][3].live == 0:
            heappop(self._unread)
        # What is not read yet may come first.
        barrier_ms, barrier_position = self._unread[0][:2] if self._unread else (NEVER, 0)
        due: list[Message] = []
        first_ms = self.schedule.first_ms()
        while first_ms <= now_ms and first_ms <= barrier_ms and len(due) < STRIDE:
            if not self.schedule.take_first(due, STRIDE, barrier_position if first_ms == barrier_ms else NEVER):
                break  # those behind wait for the barrier, or the next turn
            first_ms = self.schedule.first_ms()
        if not due:
            return False
        self._mark(due, min(barrier_ms, self.schedule.first_ms()))
        for message in due:
            try:
                self._route(message, now_ms)
            except Exception:
                # It is gone; those behind it must not be.
                log.exception("a delayed message in vhost '%s' could not be routed", self._vhost.name)
        return True

    def _mark(self, due: list[Message], next_due_ms: int) -> None:
        """All these are gone, says one number; but not of a moment of which more are to come."""
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
        """There is no way for a message that was due."""
        self.dropped += 1
        self._vhost.counters.drop_unroutable += 1

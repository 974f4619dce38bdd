"""Rates and history: samples the counts and lengths of all objects every few seconds, in slices, off the hot path.

Objects do not notify this module; it polls them. A pass visits all objects, a fraction of a millisecond at a time with
pauses between, and forgets the objects that are gone. Totals in answers are live; rates are those of the last complete
interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rabbitlike.management.statistics.ages import NO_AGES
from rabbitlike.management.statistics.details import STILL, Reading, View
from rabbitlike.management.statistics.history import History, LongHistory, Values
from rabbitlike.management.statistics.kinds import (
    CHANNEL,
    CHURN,
    CONNECTION,
    EXCHANGE,
    INLET,
    LENGTHS,
    LEVEL,
    NODE,
    PUBLISHES,
    QUEUE,
    TAKES,
    VHOST,
    Kind,
)

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker, ClientChannel
    from rabbitlike.broker.vhost import Vhost
    from rabbitlike.clock import Clock, Timer
    from rabbitlike.management.statistics.ages import Ages

#: Maximum length of a slice of a pass, and below, the pause until the next.
SLICE_S: Final = 0.0005
BREATH_MS: Final = 2
#: Objects read between two readings of the time.
STRIDE: Final = 32

Track = History | LongHistory


@dataclass(frozen=True, slots=True)
class Pass:
    """One sampling of all objects."""

    tick: int
    #: Time between the starts of the previous pass and this one.
    elapsed_ms: int


class Rates:
    """Samples one broker, and adds rates and history to views."""

    def __init__(
        self, broker: Broker, clock: Clock, interval_ms: int, read_node: Callable[[], Values] | None = None
    ) -> None:
        self.interval_ms = interval_ms
        self._broker = broker
        self._clock = clock
        self._read_node = read_node
        self._timer: Timer | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all samples. Totals remain, because the objects count them."""
        self._tracks: dict[object, Track] = {}
        #: The last complete pass, and the one under way. The first pass has no predecessor to compare with.
        self._done = Pass(0, self.interval_ms)
        self._current: Pass | None = None
        self._walk: Iterator[None] | None = None
        self._began_at_ms = 0

    def start(self) -> None:
        """Sample now, and from now on at each multiple of the interval."""
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._walk = None
        self._current = None

    @property
    def track_count(self) -> int:
        """The number of objects with history."""
        return len(self._tracks)

    # Sampling

    def _tick(self) -> None:
        now_ms = self._clock.now_ms()
        # Rounded to the nearest: a timer may fire slightly early by the wall clock.
        tick = (now_ms + self.interval_ms // 2) // self.interval_ms
        last = self._current or self._done
        if tick < last.tick:
            self.reset()  # the system clock was set back
        elif self._walk is not None:
            for _ in self._walk:  # the previous pass took a whole interval: finish it without pauses
                pass
        if tick != self._done.tick:
            elapsed_ms = now_ms - self._began_at_ms if self._began_at_ms else self.interval_ms
            self._current = Pass(tick, max(1, elapsed_ms))
            self._began_at_ms = now_ms
            self._walk = self._look(self._current)
        self._slice()

    def _slice(self) -> None:
        """Run one slice of the current pass; after its end, wait for the next."""
        if self._walk is not None:
            until = time.perf_counter() + SLICE_S
            for _ in self._walk:
                if time.perf_counter() > until:
                    self._timer = self._clock.call_later(BREATH_MS, self._slice)
                    return
            self._walk = None
        self._timer = self._clock.call_later(self.interval_ms - self._clock.now_ms() % self.interval_ms, self._tick)

    def _look(self, here: Pass) -> Iterator[None]:
        """Sample all objects into new tracks, which drops those of deleted objects. Yields from time to time."""
        new: dict[object, Track] = {}
        broker = self._broker
        for vhost in list(broker.vhosts.values()):
            yield from self._look_at_vhost(here, new, vhost)
        for count, client in enumerate(list(broker.connections)):
            self._sample(here, new, CONNECTION, client, CONNECTION.read(client))
            for channel in list(client.open_channels()):
                yield from self._look_at_channel(here, new, channel)
            if count % STRIDE == 0:
                yield
        self._sample(here, new, CHURN, CHURN, CHURN.read(broker.churn))
        if self._read_node is not None:
            self._sample(here, new, NODE, NODE, self._read_node())
        self._tracks = new
        self._done = here
        self._current = None

    def _look_at_vhost(self, here: Pass, new: dict[object, Track], vhost: Vhost) -> Iterator[None]:
        lengths = [0] * len(LENGTHS)
        for count, queue in enumerate(list(vhost.queues.values())):
            values = QUEUE.read(queue)
            lengths = [total + value for total, value in zip(lengths, values, strict=False)]
            self._sample(here, new, QUEUE, queue, values)
            if queue.incoming is not None:
                for inlet in queue.incoming.values():
                    self._sample(here, new, INLET, inlet, INLET.read(inlet))
            if queue.ready.has_levels:
                for _, level in queue.ready.numbered()[:-1]:
                    self._sample(here, new, LEVEL, level, LEVEL.read(level))
            if count % STRIDE == 0:
                yield
        for count, exchange in enumerate(list(vhost.exchanges.values())):
            self._sample(here, new, EXCHANGE, exchange, EXCHANGE.read(exchange))
            if count % STRIDE == 0:
                yield
        self._sample(here, new, VHOST, vhost, (*lengths, *VHOST.read(vhost)))

    def _look_at_channel(self, here: Pass, new: dict[object, Track], channel: ClientChannel) -> Iterator[None]:
        self._sample(here, new, CHANNEL, channel, CHANNEL.read(channel))
        for kind, pairs in ((PUBLISHES, channel.publishes), (TAKES, channel.deliveries)):
            for count, pair in enumerate(list(pairs.values()), 1):
                self._sample(here, new, kind, pair, kind.read(pair))
                if count % STRIDE == 0:
                    yield

    def _sample(self, here: Pass, new: dict[object, Track], kind: Kind, key: object, values: Values) -> None:
        track = self._tracks.get(key)
        if track is None:
            if not any(values):
                return
            # New objects started at 0, except those present at the first pass.
            before = values if self._done.tick == 0 or kind.is_measured else (0,) * len(values)
            track = (
                LongHistory(kind.shape, before, self.interval_ms)
                if kind.is_long
                else History(kind.shape, before, kind.rows)
            )
        new[key] = track
        track.add(here.tick, values)

    # Answers

    def annotate(self, kind: Kind, key: object, view: View, ages: Ages) -> None:
        """Add `x_details` for each sampled number `x` in the view."""
        stats = view.get("message_stats")
        if ages is NO_AGES and key not in self._tracks:
            # By far the most common case: one of thousands of idle objects.
            for name, detail in kind.details.items():
                if name in view:
                    view[detail] = STILL
            if isinstance(stats, dict):
                self.annotate_still(stats)
            return
        reading = self.reading(kind, (key,))
        if isinstance(stats, dict):
            reading.annotate(stats, list(stats), ages.msg_rates)
        for group, names in kind.shown.items():
            reading.annotate(view, names, getattr(ages, group))

    def has_seen(self, key: object) -> bool:
        """Whether any number of the object changed within its history."""
        return key in self._tracks

    @staticmethod
    def annotate_still(stats: View) -> None:
        """Add details with rate 0 to all counts."""
        stats.update({f"{name}_details": STILL for name in stats})

    def reading(self, kind: Kind, keys: Iterable[object]) -> Reading:
        """The combined history of these objects."""
        tracks = [(track, key) for key in keys if (track := self._tracks.get(key)) is not None]
        elapsed_ms: Mapping[int, int] = {each.tick: each.elapsed_ms for each in (self._done, self._current) if each}
        return Reading(kind, tracks, elapsed_ms, self._done.tick, self.interval_ms)

"""The `x_details` of a number x: its rate and, on request, its samples, their average and average rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from rabbitlike.management.statistics.ages import Span
    from rabbitlike.management.statistics.history import History, LongHistory, Values
    from rabbitlike.management.statistics.kinds import Kind

View: TypeAlias = "dict[str, object]"

#: Details of a number that does not change; shared, because an answer may contain thousands.
STILL: Final[View] = {"rate": 0.0}


class Reading:
    """The combined history of some objects of one kind."""

    __slots__ = ("_elapsed_ms", "_interval_ms", "_kind", "_rates", "_series", "_tick", "_tracks")

    def __init__(
        self,
        kind: Kind,
        tracks: Sequence[tuple[History | LongHistory, object]],
        elapsed_ms: Mapping[int, int],
        tick: int,
        interval_ms: int,
    ) -> None:
        self._kind = kind
        self._tracks = tracks
        self._elapsed_ms = elapsed_ms
        self._tick = tick
        self._interval_ms = interval_ms
        self._rates: list[float] | None = None
        self._series: dict[Span, tuple[list[int], list[Values]]] = {}

    def annotate(self, view: View, names: Sequence[str], span: Span | None) -> None:
        """Add the details of each of `names` that both the kind and the view have."""
        places = self._kind.places
        for name in names:
            if name in view and name in places:
                view[f"{name}_details"] = self.details(name, span)

    def details(self, name: str, span: Span | None) -> View:
        if span is None:
            rate = self.rate(name)
            return {"rate": rate} if rate else STILL
        places = self._kind.places[name]
        times, rows = self._samples(span)
        values = [sum(row[at] for at in places) for row in rows]
        details: View = {
            "rate": (values[-1] - values[-2]) * 1000 / span.incr_ms if len(values) > 1 else 0.0,
            "samples": [
                {"sample": value, "timestamp": at_ms}
                for value, at_ms in zip(reversed(values), reversed(times), strict=True)
            ],
        }
        if len(values) > 1:
            details["avg_rate"] = (values[-1] - values[0]) * 1000 / (times[-1] - times[0])
            details["avg"] = sum(values) / len(values)
        return details

    def rate(self, name: str) -> float:
        """Per second, over the last interval."""
        if self._rates is None:
            rates = [0.0] * self._kind.shape.width
            for track, _ in self._tracks:
                step = track.step(self._elapsed_ms)
                if step is not None:
                    tick, change = step
                    for at, amount in enumerate(change):
                        if amount:
                            rates[at] += amount * 1000 / self._elapsed_ms[tick]
            self._rates = rates
        return sum([self._rates[at] for at in self._kind.places[name]])

    def _samples(self, span: Span) -> tuple[list[int], list[Values]]:
        """The sums at each moment of the span, oldest first. The span ends with the last complete pass, because a pass
        under way has read only some of the objects."""
        found = self._series.get(span)
        if found is None:
            last_ms = self._tick * self._interval_ms // span.incr_ms * span.incr_ms
            times = list(range(last_ms - span.age_ms, last_ms + 1, span.incr_ms))
            if self._tick == 0:
                times = []
            ticks = [at_ms // self._interval_ms for at_ms in times]
            rows = [(0,) * self._kind.shape.width] * len(times)
            for track, key in self._tracks if times else ():
                now = self._kind.read(key) if self._kind.shape.wraps else ()
                added = track.samples(ticks, now)
                rows = [tuple(map(int.__add__, row, more)) for row, more in zip(rows, added, strict=True)]
            found = self._series[span] = times, rows
        return found

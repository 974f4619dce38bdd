"""Durations and sizes of commits, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rabbitlike.storage.api import Work

LATENCY_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
MESSAGES: Final = (0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 50_000)


class Histogram:
    """Counts of values by upper bound, in buckets; the last bucket counts values above all bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Commits:
    """All commits of this run."""

    __slots__ = ("latency_s", "messages", "records")

    def __init__(self) -> None:
        self.latency_s = Histogram(LATENCY_S)
        #: Messages stored by each commit.
        self.messages = Histogram(MESSAGES)
        #: Number of records written, that is of durable objects other than messages.
        self.records = 0

    def done(self, took_s: float, work: Work) -> None:
        """Count a commit that took ``took_s``."""
        self.latency_s.add(took_s)
        self.messages.add(sum([batch.count for batch in work.batches]))
        self.records += len(work.records)

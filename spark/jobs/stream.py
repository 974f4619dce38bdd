"""The same results, window by window, as event files arrive.

Each epoch counts its events into partials and stores them with the checkpoint; a window is finished once an event
arrives that is later than its end by `delay`. The output of an epoch depends only on the stored partials up to it, so a
repeated epoch publishes the same again, and the sink's ledger recognises it. If events arrive after their window
finished, its results are published again with the next `revision`.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from rabbitlike.spark.jobs import partials
from rabbitlike.spark.jobs.partials import Partials
from rabbitlike.spark.jobs.results import Overview, Results, Settings, overview, results, settled

#: Number of windows before the finished ones that serve as history for their results.
HISTORY: Final = 120


@dataclass(frozen=True, slots=True)
class Epoch:
    """Summary of the events of one epoch."""

    number: int
    #: Windows that end by this time are finished.
    finished_us: int
    #: Windows with events in this epoch.
    windows: frozenset[int]


@dataclass(frozen=True, slots=True)
class Finished:
    """Results of windows that an epoch finished or changed; `revisions` counts their earlier publications."""

    epoch: int
    revisions: dict[int, int]
    results: Results
    #: All known windows, including open ones.
    history: Results
    overview: Overview


class Store:
    """Partials by epoch, in a folder beside Spark's checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """The name that the sink's ledger knows this stream by: created once and kept as long as the checkpoint."""
        file = self.folder / "name"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_name(".name")
            unfinished.write_text(f"pipeline-{uuid4().hex}")
            os.replace(unfinished, file)
        return file.read_text()

    def put(self, number: int, counted: Partials) -> None:
        """Store the partials of an epoch, replacing earlier ones of it."""
        for name, table in counted.tables().items():
            table.repartition(1).write.mode("overwrite").option("compression", "zstd").parquet(self._path(name, number))

    def get(self, spark: SparkSession, numbers: Iterable[int]) -> Partials:
        """Return the partials of these epochs, not merged."""
        known = list(numbers)
        tables = {
            name: reduce(DataFrame.unionByName, (spark.read.parquet(self._path(name, number)) for number in known))
            for name in ("cells", "consumers", "suspects")
        }
        return Partials(**tables)

    def note(self, epoch: Epoch) -> None:
        """Record the summary of an epoch atomically."""
        file = self.folder / "epochs" / f"{epoch.number}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}")
        unfinished.write_text(json.dumps({"finished_us": epoch.finished_us, "windows": sorted(epoch.windows)}))
        os.replace(unfinished, file)

    def epochs(self, before: int) -> list[Epoch]:
        """Return the recorded epochs before this one, in order."""
        return sorted(self._epochs(before), key=lambda epoch: epoch.number)

    def _epochs(self, before: int) -> Iterator[Epoch]:
        for file in (self.folder / "epochs").glob("[0-9]*.json"):
            if int(file.stem) < before:
                told = json.loads(file.read_text())
                yield Epoch(int(file.stem), told["finished_us"], frozenset(told["windows"]))

    def forget(self, numbers: Iterable[int]) -> None:
        """Delete the partials of these epochs but keep their summaries."""
        for number in numbers:
            for name in ("cells", "consumers", "suspects"):
                shutil.rmtree(self._path(name, number), ignore_errors=True)

    def _path(self, name: str, number: int) -> str:
        return str(self.folder / name / f"epoch={number}")


class Follower:
    """Processes one epoch after the other and calls `publish` with the results of finished windows."""

    def __init__(self, store: Store, settings: Settings, delay_us: int, publish: Callable[[Finished], None]) -> None:
        self._store = store
        self._settings = settings
        self._delay_us = delay_us
        self._publish = publish

    def __call__(self, events: DataFrame, number: int) -> None:
        """Process one epoch; called by `foreachBatch`."""
        spark, window_us = events.sparkSession, self._settings.window_us
        self._store.put(number, partials.count(events, window_us, self._settings.poisonous))
        cells = self._store.get(spark, [number]).cells
        windows = frozenset(row.window_us for row in cells.select("window_us").distinct().collect())
        earlier = self._store.epochs(before=number)
        before_us = earlier[-1].finished_us if earlier else 0
        epoch = Epoch(number, max(before_us, max(windows, default=0) - self._delay_us), windows)
        self._store.note(epoch)
        revisions = self._revisions([*earlier, epoch])
        if not revisions:
            return
        oldest_us = min(revisions) - HISTORY * window_us
        needed = [each.number for each in (*earlier, epoch) if max(each.windows, default=0) >= oldest_us]
        known = self._recent(partials.merge(self._store.get(spark, needed)), oldest_us)
        made = results(known, self._settings)
        self._publish(
            Finished(number, revisions, _only(made, revisions), made, overview(made, known.suspects, self._settings))
        )
        # Late events need at most the history of their windows: data older than twice that is never needed again.
        too_old_us = oldest_us - HISTORY * window_us
        self._store.forget(each.number for each in earlier if max(each.windows, default=0) < too_old_us)

    def _recent(self, merged: Partials, oldest_us: int) -> Partials:
        recent = f.col("window_us") >= oldest_us
        return Partials(
            merged.cells.where(recent), merged.consumers.where(recent), settled(merged.suspects.where(recent))
        )

    def _revisions(self, epochs: list[Epoch]) -> dict[int, int]:
        """Return the windows that the last epoch finishes or changes, with the number of earlier publications."""
        *earlier, last = epochs
        before_us = earlier[-1].finished_us if earlier else 0
        window_us = self._settings.window_us
        known = frozenset().union(*(epoch.windows for epoch in epochs))
        # Include windows without events: silence may be worth reporting.
        since_us = max(before_us, min(known, default=last.finished_us))
        silent = range(since_us - since_us % window_us, last.finished_us, window_us)
        found = {}
        for window in known.union(silent):
            end = window + window_us
            if end > last.finished_us or (end <= before_us and window not in last.windows):
                continue
            first = next(at for at, epoch in enumerate(epochs) if epoch.finished_us >= end)
            found[window] = sum(window in epoch.windows for epoch in epochs[first + 1 :])
        return found


def _only(made: Results, windows: Iterable[int]) -> Results:
    chosen = f.col("window_us").isin(*windows)
    return Results(*(getattr(made, name).where(chosen) for name in Results.__slots__))

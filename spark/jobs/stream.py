"""The same results, window by window, as files of events come in.

Each epoch counts its events into partials and stores them with the checkpoint; a window is finished once events come
that are later than its end by `delay`. What an epoch publishes follows from the stored partials up to it alone, so that
an epoch that is repeated says the same again, and the sink's ledger knows that it was said. Events later than that make
a window's results be published again, with the next `revision`.
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

#: Windows before those that are finished, which their results are held against.
HISTORY: Final = 120


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one lot of events has brought."""

    number: int
    #: Windows that end by then are finished.
    finished_us: int
    #: Of which windows there were events.
    windows: frozenset[int]


@dataclass(frozen=True, slots=True)
class Finished:
    """Results of windows that an epoch has finished, or made anew: `revisions` says how often before."""

    epoch: int
    revisions: dict[int, int]
    results: Results
    #: All that is still known, windows that are open among it.
    history: Results
    overview: Overview


class Store:
    """Partials by epoch, in a folder beside Spark's checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """Under which what is published from here is known: made once, and kept as long as the checkpoint is."""
        file = self.folder / "name"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_name(".name")
            unfinished.write_text(f"pipeline-{uuid4().hex}")
            os.replace(unfinished, file)
        return file.read_text()

    def put(self, number: int, counted: Partials) -> None:
        """Those of an epoch, in place of what there was of it."""
        for name, table in counted.tables().items():
            table.repartition(1).write.mode("overwrite").option("compression", "zstd").parquet(self._path(name, number))

    def get(self, spark: SparkSession, numbers: Iterable[int]) -> Partials:
        """Those of these epochs, not added up."""
        known = list(numbers)
        tables = {
            name: reduce(DataFrame.unionByName, (spark.read.parquet(self._path(name, number)) for number in known))
            for name in ("cells", "consumers", "suspects")
        }
        return Partials(**tables)

    def note(self, epoch: Epoch) -> None:
        """Remember what an epoch has brought. Whole or not at all."""
        file = self.folder / "epochs" / f"{epoch.number}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}")
        unfinished.write_text(json.dumps({"finished_us": epoch.finished_us, "windows": sorted(epoch.windows)}))
        os.replace(unfinished, file)

    def epochs(self, before: int) -> list[Epoch]:
        """Those before this one, in order."""
        return sorted(self._epochs(before), key=lambda epoch: epoch.number)

    def _epochs(self, before: int) -> Iterator[Epoch]:
        for file in (self.folder / "epochs").glob("[0-9]*.json"):
            if int(file.stem) < before:
                told = json.loads(file.read_text())
                yield Epoch(int(file.stem), told["finished_us"], frozenset(told["windows"]))

    def forget(self, numbers: Iterable[int]) -> None:
        """Partials of these epochs; the note that they were stays."""
        for number in numbers:
            for name in ("cells", "consumers", "suspects"):
                shutil.rmtree(self._path(name, number), ignore_errors=True)

    def _path(self, name: str, number: int) -> str:
        return str(self.folder / name / f"epoch={number}")


class Follower:
    """Takes one epoch after the other; `publish` is called with what each has finished."""

    def __init__(self, store: Store, settings: Settings, delay_us: int, publish: Callable[[Finished], None]) -> None:
        self._store = store
        self._settings = settings
        self._delay_us = delay_us
        self._publish = publish

    def __call__(self, events: DataFrame, number: int) -> None:
        """For `foreachBatch`."""
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
        # Late events reach back as far as their windows' own history: twice that is never asked for again.
        too_old_us = oldest_us - HISTORY * window_us
        self._store.forget(each.number for each in earlier if max(each.windows, default=0) < too_old_us)

    def _recent(self, merged: Partials, oldest_us: int) -> Partials:
        recent = f.col("window_us") >= oldest_us
        return Partials(
            merged.cells.where(recent), merged.consumers.where(recent), settled(merged.suspects.where(recent))
        )

    def _revisions(self, epochs: list[Epoch]) -> dict[int, int]:
        """The windows that the last of these epochs finishes or changes, and how often they were published before."""
        *earlier, last = epochs
        before_us = earlier[-1].finished_us if earlier else 0
        window_us = self._settings.window_us
        known = frozenset().union(*(epoch.windows for epoch in epochs))
        # Also those in which nothing happened at all: that may be worth saying.
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

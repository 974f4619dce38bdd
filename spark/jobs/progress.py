"""Progress of a run: the current step and Spark's tasks, on a transient line."""

from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S: Final = 0.3


class Progress:
    """Shows progress; without a terminal, it prints one line per step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_live = console.is_terminal
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._done = Event()
        self._watcher: Thread | None = None

    def __enter__(self) -> Self:
        if self._is_live:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watch(None)
        if self._is_live:
            self._bar.stop()

    def step(self, text: str) -> None:
        """Start the next step."""
        if self._is_live:
            self._bar.reset(self._task, description=text, total=None)
        else:
            self._console.print(f"{text} …", style="dim", highlight=False)

    def watch(self, spark: "SparkSession | None") -> None:
        """Follow the tasks of this session; None: of no session."""
        if self._watcher is not None:
            self._done.set()
            self._watcher.join()
            self._watcher = None
        if spark is not None and self._is_live:
            self._done.clear()
            self._watcher = Thread(target=self._look, args=(spark,), daemon=True)
            self._watcher.start()

    def _look(self, spark: "SparkSession") -> None:
        tracker = spark.sparkContext.statusTracker()
        while not self._done.wait(LOOK_EVERY_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                total, done = sum(stage.numTasks for stage in known), sum(stage.numCompletedTasks for stage in known)
                self._bar.update(self._task, total=total, completed=done)

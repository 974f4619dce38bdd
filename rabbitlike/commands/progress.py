"""Progress bars, on standard error and only if it is a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: Work that takes less time shows no bar.
PATIENCE_S: Final = 0.5
REFRESH_S: Final = 0.1

#: Called with the number of further items done.
Advance = Callable[[int], None]


@contextmanager
def counting(what: str, total: int | None, *, in_octets: bool = False) -> Iterator[Advance]:
    """Show a progress bar for items or octets, of `total` or, if None, of an unknown number."""
    if not sys.stderr.isatty() or total == 1:
        yield lambda _: None
        return
    with _Bar(what, total, in_octets=in_octets) as bar:
        yield bar.add


class _Bar:
    """A Rich progress bar that is updated far more often than it is drawn."""

    def __init__(self, what: str, total: int | None, *, in_octets: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        speed = TransferSpeedColumn() if in_octets else TextColumn("{task.fields[speed]}")
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            DownloadColumn() if in_octets else MofNCompleteColumn(),
            speed,
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(what, total=total, speed="")
        self._done = 0
        self._started = self._drawn = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._progress.stop()

    def add(self, many: int) -> None:
        self._done += many
        now = time.monotonic()
        if now - self._drawn < REFRESH_S:
            return
        self._drawn = now
        if not self._is_shown and now - self._started > PATIENCE_S:
            self._progress.start()
            self._is_shown = True
        speed = self._done / (now - self._started)
        self._progress.update(self._task, completed=self._done, speed=f"{speed:,.0f}/s")

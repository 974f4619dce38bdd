"""The broker's log over HTTP: recent lines, and a stream of new ones.

Memory is bounded, in total and per subscriber: a slow subscriber loses its oldest lines and learns how many. Any thread
may log; subscribers get the lines on the loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from rabbitlike.log import is_plain

KEPT: Final = 1000
#: Maximum lines queued for one subscriber.
WAITING: Final = 500
MAX_LISTENERS: Final = 20
#: Longer lines are truncated.
MAX_LINE: Final = 16_384

LOGGER: Final = "rabbitlike"


class LogLine(NamedTuple):
    timestamp_ms: int
    severity: str
    source: str
    message: str

    def view(self) -> dict[str, object]:
        return {
            "timestamp": self.timestamp_ms,
            "severity": self.severity,
            "source": self.source,
            "message": self.message,
        }


class LogSubscriber:
    """A client that follows the log."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=WAITING)
        self._lost = 0
        self._came = asyncio.Event()
        self.is_closed = False

    def add(self, line: LogLine) -> None:
        self._lost += len(self._lines) == WAITING
        self._lines.append(line)
        self._came.set()

    def close(self) -> None:
        self.is_closed = True
        self._came.set()

    async def take(self, timeout_s: float) -> tuple[list[LogLine], int]:
        """New lines, and how many were lost before them; no lines after `timeout_s` of silence."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._came.wait()
        except TimeoutError:
            pass
        lines, lost = list(self._lines), self._lost
        self._lines.clear()
        self._lost = 0
        if not self.is_closed:
            self._came.clear()
        return lines, lost


class LogLines(logging.Handler):
    """Collects what the broker logs between `start` and `close`."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: deque[LogLine] = deque(maxlen=KEPT)
        self._listeners: set[LogSubscriber] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        logging.getLogger(LOGGER).addHandler(self)

    def close(self) -> None:
        logging.getLogger(LOGGER).removeHandler(self)
        for listener in self._listeners:
            listener.close()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = (record.getMessage() if is_plain(record) else self.format(record))[:MAX_LINE]
            line = LogLine(int(record.created * 1000), record.levelname.lower(), record.name, text)
            if threading.get_ident() == self._thread:
                self._add(line)
            elif self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._add, line)
        except Exception:
            self.handleError(record)

    def _add(self, line: LogLine) -> None:
        self.kept.append(line)
        for listener in self._listeners:
            listener.add(line)

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= MAX_LISTENERS

    @contextmanager
    def listen(self) -> Iterator[LogSubscriber]:
        listener = LogSubscriber()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

"""The log, on standard error or in a file, in a cheap format.

Each connection logs a line, so a storm of connections is a storm of lines. Configuring the log again reopens the file:
logrotate moves it away and sends SIGHUP, and the next line goes to a new file. Logging never waits for the disk: a
thread writes, and when too many lines wait, further lines are dropped and counted.
"""

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TextIO

#: Lines contain client addresses: readable by the owner and its group only.
FILE_MODE: Final = 0o640
#: Maximum of lines waiting to be written, and of lines written at once.
MOST_LINES: Final = 10_000
LINES_TOGETHER: Final = 1000
#: How long the thread waits for more lines: waking it up costs the loop more than a line.
GATHER_S: Final = 0.01
#: How long a stopping broker waits for its log.
FLUSH_S: Final = 2.0


class LineFormat(logging.Formatter):
    """`2026-11-16 12:00:00.123 [INFO] what happened`, followed by a traceback if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self._second = -1
        self._stamp = ""

    def format(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second:
            self._second, self._stamp = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        text = record.getMessage() if is_plain(record) else super().format(record)
        return f"{self._stamp}.{int(record.msecs):03d} [{record.levelname}] {text}"


class JsonFormat(logging.Formatter):
    """`{"time": "2026-11-16T12:00:00.123Z", "level": "info", "logger": "rabbitlike", "msg": "what happened"}`.

    parity: `time`, `level` and `msg` are RabbitMQ's names. A traceback is in `exception`; each record is one line.
    """

    def __init__(self) -> None:
        from json import dumps  # not needed for text, and would delay the start

        super().__init__()
        self._dumps = dumps

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return self._dumps(line, ensure_ascii=False)


def is_plain(record: logging.LogRecord) -> bool:
    """Whether the record has nothing but a message."""
    return not (record.exc_info or record.exc_text or record.stack_info)


class Output(logging.Handler):
    """Writes to standard error, or to a file that can be reopened. A thread writes the lines, because a disk or a pipe
    that blocks must not stop the broker."""

    def __init__(self) -> None:
        super().__init__()
        self._stream: TextIO = sys.stderr
        self._opened: TextIO | None = None
        #: Held while writing to the stream or changing it.
        self._writing = threading.Lock()
        #: Lines to write; an event among them is set once all lines before it are written.
        self._waiting: SimpleQueue[str | threading.Event] = SimpleQueue()
        self._left_out = 0
        self._thread: threading.Thread | None = None

    def reopen(self, file: Path | None) -> None:
        opened = None if file is None else _open(file)
        with self._writing:
            self._stream = sys.stderr if opened is None else opened
            if self._opened is not None:
                self._opened.close()
            self._opened = opened

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= MOST_LINES:
            self._left_out += 1
            return
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        if self._left_out:
            line = f"{line}\n{self.format(_left_out(self._left_out))}"
            self._left_out = 0
        self._put(line)

    def flush(self) -> None:
        """Wait until everything is written, for at most FLUSH_S."""
        if self._thread is not None:
            written = threading.Event()
            self._put(written)
            written.wait(FLUSH_S)

    def _put(self, line: str | threading.Event) -> None:
        self._waiting.put(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_on, name="log", daemon=True)
            self._thread.start()

    def _write_on(self) -> None:
        while True:
            lines, written = self._next()
            if lines:
                with self._writing, suppress(OSError, ValueError):  # a failure cannot be reported anywhere
                    self._stream.write("\n".join([*lines, ""]))
                    self._stream.flush()
            if written is not None:
                written.set()

    def _next(self) -> tuple[list[str], threading.Event | None]:
        """The next lines to write together, and the event to set afterwards."""
        line = self._waiting.get()
        if isinstance(line, threading.Event):
            return [], line
        time.sleep(GATHER_S)
        lines = [line]
        while len(lines) < LINES_TOGETHER and not self._waiting.empty():
            line = self._waiting.get()
            if isinstance(line, threading.Event):
                return lines, line
            lines.append(line)
        return lines, None


def _left_out(count: int) -> logging.LogRecord:
    text = "%d lines before this one were left out: the log could not be written fast enough"
    return logging.LogRecord(__name__, logging.WARNING, "", 0, text, (count,), None)


_output: Final = Output()


def configure(level: str, form: str = "text", file: Path | None = None) -> None:
    """Set level, format and file of the log; reopen the file. Raise OSError, and change nothing, if it cannot be
    opened."""
    # No line names its source, and finding it costs more than the rest: turned off as logging's manual shows.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    _output.reopen(file)
    _output.setFormatter(JsonFormat() if form == "json" else LineFormat())
    root = logging.getLogger()
    if _output not in root.handlers:
        root.addHandler(_output)
    root.setLevel(level.upper())


def _open(file: Path) -> TextIO:
    return open(file, "a", encoding="utf-8", errors="backslashreplace", opener=_create)


def _create(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)

"""The log, on standard error or in a file: what a line looks like, and that it costs little.

Each connection writes a line, so a storm of connections is a storm of lines. A file is opened anew when the log is
configured again: whoever moves it away (logrotate) sends SIGHUP, and the next line is in a new one.
"""

import logging
import os
import sys
import time
from pathlib import Path
from typing import Final, TextIO

#: Lines tell of clients and their addresses: for the owner and its group.
FILE_MODE: Final = 0o640


class LineFormat(logging.Formatter):
    """`2026-11-16 12:00:00.123 [INFO] what happened`, and a traceback below where there is one."""

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

    parity: `time`, `level` and `msg` are RabbitMQ's names. A traceback is in `exception`; a line is one line always.
    """

    def __init__(self) -> None:
        from json import dumps  # not needed for text, and the start is to be quick

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
    """Is the message all there is to it?"""
    return not (record.exc_info or record.exc_text or record.stack_info)


class Output(logging.StreamHandler[TextIO]):
    """Standard error, or a file that can be opened anew."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._opened: TextIO | None = None

    def reopen(self, file: Path | None) -> None:
        opened = None if file is None else _open(file)
        self.setStream(sys.stderr if opened is None else opened)
        if self._opened is not None:
            self._opened.close()
        self._opened = opened


_output: Final = Output()


def configure(level: str, form: str = "text", file: Path | None = None) -> None:
    """Log what is at least this important, in this form, to this file, which is opened anew. OSError, and all stays as
    it is, when it cannot be opened."""
    # No line says who wrote it, and finding out costs more than the rest: left off the way logging's manual shows.
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

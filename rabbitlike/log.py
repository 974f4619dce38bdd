"""The log on standard error: what a line looks like, and that it costs little.

Each connection writes a line, so a storm of connections is a storm of lines.
"""

import logging
import sys
import time


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


def is_plain(record: logging.LogRecord) -> bool:
    """Is the message all there is to it?"""
    return not (record.exc_info or record.exc_text or record.stack_info)


def configure(level: str) -> None:
    """Log what is at least this important."""
    # No line says who wrote it, and finding out costs more than the rest: left off the way logging's manual shows.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormat())
    logging.basicConfig(level=level.upper(), handlers=[handler])

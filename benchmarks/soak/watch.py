"""Samples of the broker, one per second: memory, disk, messages in and out, alarms, lines in its log."""

import base64
import contextlib
import http.client
import json
import mmap
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.children import Parent
from benchmarks.client import Address

PERIOD_S = 1.0
ASK_LIMIT_S = 60.0
_AUTHORIZATION = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
_ERROR = re.compile(r"\[(ERROR|CRITICAL)\]|^Traceback ")
_WARNING = re.compile(r"\[WARNING\]")


@dataclass(slots=True)
class Sample:
    at_s: float  # since the start
    rss_bytes: float
    wal_bytes: int
    data_bytes: int
    cpu_s: float
    published: int = 0  # totals since the broker's start, from the API
    delivered: int = 0
    backlog: int = 0
    connections: int = 0
    alarms: int = 0
    asked_ms: float = (
        0.0  # time the API took; above `ASK_LIMIT_S` it did not answer, and the totals are the last known ones
    )
    p50_ms: float = 0.0  # of the well-behaved client in this second
    p99_ms: float = 0.0
    max_ms: float = 0.0
    durable_p99_ms: float = 0.0
    durable_max_ms: float = 0.0


class Told:
    """The latest answer of the API, in memory shared with the process that requests it.

    A broker that does not answer must not delay the other samples.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._cells = memoryview(self._memory).cast("d")

    def asks(self) -> None:
        self._cells[0] = time.perf_counter()

    def tell(self, overview: Any, node: Any) -> None:
        stats = overview["message_stats"]
        for cell, value in enumerate(
            (
                stats["publish"],
                stats["deliver_get"],
                overview["queue_totals"]["messages"],
                overview["object_totals"]["connections"],
                int(node["mem_alarm"]) + int(node["disk_free_alarm"]),
                (time.perf_counter() - self._cells[0]) * 1000,
            ),
            start=1,
        ):
            self._cells[cell] = value
        self._cells[0] = 0.0

    def fill(self, sample: Sample) -> None:
        asked_at = self._cells[0]
        sample.published, sample.delivered, sample.backlog, sample.connections, sample.alarms = map(
            int, self._cells[1:6]
        )
        waiting_ms = (time.perf_counter() - asked_at) * 1000 if asked_at else 0.0
        sample.asked_ms = max(self._cells[6], waiting_ms)


def ask(parent: Parent, api: Address, told: Told) -> None:
    """Request the API every second, until the runner ends this process."""
    parent.ready()
    while not parent.is_started(PERIOD_S):
        told.asks()
        with contextlib.suppress(OSError, http.client.HTTPException):
            overview = get(api, "/api/overview")
            (node,) = get(api, "/api/nodes")
            told.tell(overview, node)


def get(api: Address, path: str) -> Any:
    link = http.client.HTTPConnection(api.host, api.port, timeout=ASK_LIMIT_S)
    with contextlib.closing(link):
        link.request("GET", path, headers=_AUTHORIZATION)
        answer = link.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"GET {path}: {answer.status}")
        return json.loads(body)


@dataclass(slots=True)
class Watch:
    pid: int
    data: Path
    log: Path
    told: Told
    began: float
    samples: list[Sample] = field(default_factory=list)

    def look(self) -> Sample:
        sample = Sample(
            at_s=time.perf_counter() - self.began,
            rss_bytes=processes.rss_bytes(self.pid),
            wal_bytes=sum(_size(path) for path in self.data.glob("*-wal")),
            data_bytes=sum(_size(path) for path in self.data.rglob("*")),
            cpu_s=processes.cpu_seconds(self.pid),
        )
        self.told.fill(sample)
        self.samples.append(sample)
        return sample

    def errors(self) -> list[str]:
        """Return the lines of the log that report an error of the broker."""
        return [line for line in self._lines() if _ERROR.search(line)]

    def warnings(self) -> list[str]:
        return [line for line in self._lines() if _WARNING.search(line)]

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # deleted meanwhile
        return 0

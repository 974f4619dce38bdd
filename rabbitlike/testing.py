"""Tools for tests, ours and those of programs that use the broker: an in-process broker and a manual clock.

    from rabbitlike.testing import rabbitlike_broker          # in conftest.py: a fixture, one broker per session

    def test_it(rabbitlike_broker):
        pika.BlockingConnection(pika.URLParameters(rabbitlike_broker.url))

The broker itself does not import this module.
"""

import asyncio
import heapq
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

from rabbitlike.app import App, new_loop
from rabbitlike.config import Settings


class FakeTimer:
    """A timer of FakeClock, ordered by due time, then by creation."""

    __slots__ = ("due_ms", "fn", "order")

    def __init__(self, due_ms: int, order: int, fn: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.order = order
        self.fn: Callable[[], None] | None = fn

    def __lt__(self, other: "FakeTimer") -> bool:
        return (self.due_ms, self.order) < (other.due_ms, other.order)

    def cancel(self) -> None:
        self.fn = None


class FakeClock:
    """A Clock that stands still until `advance`, which fires due timers in order, each at its own time.

    Work takes no time, unless `tick_ns` is set: then the clock advances by that whenever work is measured, so that
    turns with long work end early, after each step if the value is high.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, tick_ns: int = 0) -> None:
        self._now_ms = now_ms
        self.tick_ns = tick_ns
        self._ticks_ns = 1
        self._timers: list[FakeTimer] = []
        self._order = count()

    def now_ms(self) -> int:
        return self._now_ms

    def ticks_ns(self) -> int:
        self._ticks_ns += self.tick_ns
        return self._ticks_ns

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self._now_ms + max(delay_ms, 0), next(self._order), fn)
        heapq.heappush(self._timers, timer)
        return timer

    def advance(self, ms: int) -> None:
        """Advance by `ms`. Timers set meanwhile also fire if they are due within it."""
        end_ms = self._now_ms + ms
        while self._timers and self._timers[0].due_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            if timer.fn is None:
                continue
            self._now_ms = max(self._now_ms, timer.due_ms)
            timer.fn()
        self._now_ms = end_ms

    @property
    def pending(self) -> int:
        """The number of timers that have not fired."""
        return sum(timer.fn is not None for timer in self._timers)


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """Address and URL of a broker made by `run_broker`."""

    host: str
    port: int
    url: str


@contextmanager
def run_broker(**options: Any) -> Iterator[RunningBroker]:
    """Run a broker in memory, in its own thread, on a free local port; `options` are those of Settings."""
    chosen: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "memory": True, "management_port": None, **options}
    settings = Settings(**chosen)
    started: Future[App] = Future()
    stopping: Future[None] = Future()
    thread = threading.Thread(target=_run, args=(settings, started, stopping), name="rabbitlike", daemon=True)
    thread.start()
    try:
        parts = urlsplit(started.result().urls[0])
        host, port = parts.hostname or "", parts.port or 0
        user, password = quote(settings.default_user, safe=""), quote(settings.default_password, safe="")
        vhost = quote(settings.default_vhost, safe="")
        yield RunningBroker(host, port, f"amqp://{user}:{password}@{parts.netloc}/{vhost}")
    finally:
        stopping.set_result(None)
        thread.join()


def _run(settings: Settings, started: "Future[App]", stopping: "Future[None]") -> None:
    async def serve() -> None:
        app = App(settings)
        await app.start()
        started.set_result(app)
        await asyncio.wrap_future(stopping)
        await app.stop()

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(serve())
    except Exception as error:
        if started.done():
            raise
        started.set_exception(error)


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture(scope="session", name="rabbitlike_broker")
    def rabbitlike_broker() -> Iterator[RunningBroker]:
        """One broker for all tests of a session."""
        with run_broker() as broker:
            yield broker

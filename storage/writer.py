"""The commit loop: group commit without a timer.

Everything collected so far is committed as one transaction; what arrives meanwhile is the next. So a single message is
committed at once, and under load thousands share one fsync. Commits run one at a time, in order, and no work is ever
dropped: a failed commit is retried, with the same work, until it succeeds.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVarTuple

from rabbitlike.storage.api import StorageError, Work, WorkError

log = logging.getLogger(__name__)

_Arguments = TypeVarTuple("_Arguments")

#: Delay between two attempts at the same work: at first, and at most.
FIRST_DELAY_S: Final = 0.1
LONGEST_DELAY_S: Final = 5.0
#: Interval of log lines while commits keep failing.
REMINDER_S: Final = 60.0
#: How long a stop waits for failing commits: stopping takes at most 5 s, clients included.
CLOSING_S: Final = 1.5


class Writer:
    """Commits what `take` returns and reports the result. All callbacks run on the loop's thread.

    `take` returns the collected work with its number and starts a new one; the work may be empty. `committed(number)`:
    the work of that number, and all before it, is durable. `failed(error)` follows each failed attempt; `resumed()` the
    first success after that, before its `committed`. `timed(seconds, work)`: how long a non-empty commit took, with all
    its attempts, before its `committed`. While `is_held` returns True, nothing is taken; `wake` is called when that
    ends.
    """

    def __init__(
        self,
        commit: Callable[[Work], Awaitable[None]],
        take: Callable[[], Work],
        committed: Callable[[int], None],
        failed: Callable[[StorageError], None],
        resumed: Callable[[], None],
        timed: Callable[[float, Work], None] = lambda seconds, work: None,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        self._commit = commit
        self._take = take
        self._committed = committed
        self._failed = failed
        self._resumed = resumed
        self._timed = timed
        self._is_held = is_held
        #: The last error while commits fail; None otherwise.
        self.error: StorageError | None = None
        self._is_awake = False
        self._sleeper: asyncio.Future[None] | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="storage writer")

    def wake(self) -> None:
        """Note that there is work to take. Cheap to call repeatedly, even during a commit."""
        self._is_awake = True
        if self._sleeper is not None:
            self._sleeper.set_result(None)
            self._sleeper = None

    async def close(self, grace_s: float = CLOSING_S) -> None:
        """Commit the rest, and end. Raise StorageError if commits keep failing."""
        self._closing.set()
        self.wake()
        if self._task is None:
            return
        done, _ = await asyncio.wait([self._task], timeout=grace_s)
        if not done and self.error is None:
            done, _ = await asyncio.wait([self._task])  # slow, but progressing
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise StorageError(f"the last changes could not be written: {self.error}") from self.error
        await self._task

    async def _run(self) -> None:
        while True:
            while not self._is_awake or self._is_held():
                if self._closing.is_set() and not self._is_awake:
                    return
                self._sleeper = asyncio.get_running_loop().create_future()
                await self._sleeper
            self._is_awake = False
            self._tell(self._committed, await self._commit_next())

    async def _commit_next(self) -> int:
        """Commit the collected work; return its number. A separate coroutine, so that no variable keeps the work, with
        all its messages, alive until the next one."""
        work = self._take()
        if not work.is_empty():
            began_s = time.perf_counter()
            await self._commit_surely(work)
            self._tell(self._timed, time.perf_counter() - began_s, work)
        return work.number

    async def _commit_surely(self, work: Work) -> None:
        delay_s = FIRST_DELAY_S
        waited_s = 0.0
        while True:
            try:
                await self._commit(work)
                break
            except StorageError as error:
                if self.error is None or waited_s >= REMINDER_S:
                    _report(error)
                    waited_s = 0.0
                self.error = error
                self._tell(self._failed, error)
            await self._pause(delay_s)
            waited_s += delay_s
            delay_s = min(delay_s * 2, LONGEST_DELAY_S)
        if self.error is not None:
            log.info("commits succeed again")
            self.error = None
            self._tell(self._resumed)

    async def _pause(self, delay_s: float) -> None:
        """Wait before the next attempt; stopping the broker ends the wait."""
        if self._closing.is_set():
            await asyncio.sleep(min(delay_s, FIRST_DELAY_S))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._closing.wait()

    def _tell(self, callback: Callable[[*_Arguments], None], *arguments: *_Arguments) -> None:
        """Call a callback; its errors must not end the loop, because no further message would be confirmed."""
        try:
            callback(*arguments)
        except Exception:
            log.exception("a commit could not be reported")


def _report(error: StorageError) -> None:
    if isinstance(error, WorkError):
        log.critical(
            "commit failed for good: %s; nothing more is confirmed until the broker is restarted, "
            "and what was confirmed is safe",
            error,
        )
    else:
        log.error("commit failed: %s", error)

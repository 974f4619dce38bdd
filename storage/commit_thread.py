"""The thread that owns the writing connection. It runs calls in order, with one hop each way.

It replaces aiosqlite's thread on the commit path, because every confirm waits for both hops. The thread is a daemon: a
process that fails before it closes the store must still end, and everything committed is safe.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar, TypeVarTuple

_Connection = TypeVar("_Connection", bound=sqlite3.Connection)
_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class CommitThread(Generic[_Connection]):
    """Bound to the event loop that creates it."""

    #: Use it only in the thread.
    connection: _Connection

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._calls_after: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._thread = Thread(target=self._serve, name="storage writer", daemon=True)
        self._thread.start()

    def run(self, function: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> "asyncio.Future[_Result]":
        """Run a function in the thread, after all earlier calls. Cancelling the future does not stop the call."""
        future: asyncio.Future[_Result] = self._loop.create_future()
        self._calls.put((future, function, arguments))
        return future

    def later(self, function: Callable[[*_Arguments], object], *arguments: *_Arguments) -> None:
        """Run a function in the thread after the current call's result is delivered. Called in the thread."""
        self._calls_after.append((function, arguments))

    async def connect(self, make: Callable[[], _Connection]) -> None:
        self.connection = await self.run(make)

    async def execute_fetchall(self, sql: str) -> Iterable[Any]:
        return await self.run(lambda: self.connection.execute(sql).fetchall())

    async def executescript(self, sql: str) -> object:
        return await self.run(self.connection.executescript, sql)

    async def close(self) -> None:
        """Close the connection, if there is one, and end the thread, after all earlier calls."""
        try:
            if hasattr(self, "connection"):
                await self.run(self.connection.close)
        finally:
            self._calls.put(None)
            self._thread.join()

    def _serve(self) -> None:
        tell = self._loop.call_soon_threadsafe
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            result, error = None, None
            try:
                result = function(*arguments)
            except BaseException as caught:  # the caller handles it, whatever it is
                error = caught
            try:
                tell(_resolve, future, result, error)
            except RuntimeError:  # the loop is closed: there is no caller any more
                return
            for function, arguments in self._calls_after:
                function(*arguments)
            self._calls_after.clear()
            del call, future, function, arguments, result, error  # otherwise they stay in memory until the next call


def _resolve(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():  # cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

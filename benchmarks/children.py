"""A forked process of the generator: reports when it is ready, starts on command, returns figures."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Concatenate, ParamSpec

from benchmarks.client import Refused

P = ParamSpec("P")
Figures = tuple[float, ...]


class Child:
    """The runner's end of the pipe to one child."""

    def __init__(self, end: Connection, pid: int) -> None:
        self._end = end
        self.pid = pid

    def take(self, timeout: float) -> Figures:
        """Return the child's next report; raise its failure here."""
        if not self._end.poll(timeout):
            raise Refused(f"no progress for {timeout:.0f} s")
        said: Figures | str = self._end.recv()
        if isinstance(said, str):
            raise Refused(said)
        return said

    def start(self) -> None:
        self._end.send("go")


class Parent:
    """The child's end of the pipe."""

    def __init__(self, end: Connection) -> None:
        self._end = end

    def ready(self) -> None:
        self._end.send(())

    def await_start(self) -> None:
        self._end.recv()

    def is_started(self, timeout: float = 0.0) -> bool:
        """Return whether the runner sends a message within ``timeout`` seconds."""
        return self._end.poll(timeout)

    def give(self, *figures: float) -> None:
        self._end.send(figures)


@contextlib.contextmanager
def forked(work: Callable[Concatenate[Parent, P], None], *args: P.args, **kwargs: P.kwargs) -> Iterator[Child]:
    """Run `work` in a child until it returns; a child still running when the block is left is killed."""
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe()

    def guarded() -> None:
        near.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner receives it too and ends its children
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            work(Parent(far), *args, **kwargs)
        except (OSError, Refused, EOFError) as error:
            with contextlib.suppress(OSError):  # the runner may be gone
                far.send(f"{work.__name__.strip('_')}: {error or type(error).__name__}")

    process = context.Process(target=guarded, daemon=True)
    process.start()
    far.close()
    try:
        assert process.pid is not None
        yield Child(near, process.pid)
        process.join(5)
    finally:
        near.close()
        if process.is_alive():
            process.kill()
        process.join()

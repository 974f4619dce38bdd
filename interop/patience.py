"""Waiting for what happens in another process: look often, give up late."""

import time
from collections.abc import Callable

PATIENCE_S = 20.0
"""Far longer than anything takes: a machine that is busy must not fail a test."""


def eventually(predicate: Callable[[], bool], what: str, *, within_s: float = PATIENCE_S) -> None:
    """Until `predicate` holds; an AssertionError naming `what` when it does not."""
    deadline = time.monotonic() + within_s
    while not predicate():
        assert time.monotonic() < deadline, f"not in {within_s} s: {what}"
        time.sleep(0.005)

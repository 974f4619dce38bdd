"""Counts the living objects of the broker, without the help of the cycle collector.

    with live_objects() as alive:          # the collector is off
        ...                                # create and delete objects, and fill caches
        before = alive()
        ...                                # create and delete the same again
        assert alive() - before == Counter()

A deleted object that is still alive is referred to by a lasting object or by itself; both are leaks.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Alive = Callable[[], Counter[str]]


def _alive() -> Counter[str]:
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        if str(kind.__module__).startswith("rabbitlike.") and kind.__module__ != "rabbitlike.testing":
            found[f"{str(kind.__module__).removeprefix('rabbitlike.')}.{kind.__qualname__}"] += 1
    return found


@contextmanager
def live_objects() -> Iterator[Alive]:
    """Count new objects of the broker's classes by name, if the collector tracks them: others are in no cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # ignore older objects: a test process holds some 100,000
    try:
        yield _alive
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()

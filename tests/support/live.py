"""Which of the broker's objects are alive, without the help of the cycle collector.

    with live_objects() as alive:          # the collector is off
        ...                                # something comes and goes, and fills caches
        before = alive()
        ...                                # the same comes and goes again
        assert alive() - before == Counter()

What ended and is still alive is either referred to by something that lasts or refers to itself; both are leaks.
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
    """Counts objects of the broker's classes by their names, those made since; and of these only what the collector
    tracks, which is all that can be part of a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before is not looked at: a test process holds some 100,000 objects
    try:
        yield _alive
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()

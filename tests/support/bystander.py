"""What every attack is measured by: memory, time, and another client who must not have noticed."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.pair import Pair

MIB = 1024 * 1024


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """What happens inside never needs more than `most` octets beyond what was there before, not even in passing."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak <= most, f"{peak / MIB:.1f} MiB were allocated, {most / MIB:.1f} MiB are allowed"


class Bystander:
    """Another client with a consumer, who notices everything."""

    def __init__(self, pair: Pair) -> None:
        self.client = pair.connect()
        self.ch = self.client.channel()
        self.ch.declare("bystander", exclusive=True)
        self.ch.consume("bystander", no_ack=True)

    def expect_unharmed(self) -> None:
        self.ch.publish(b"still here", key="bystander")
        assert self.ch.bodies() == [b"still here"]
        self.client.expect_nothing()
        assert not self.client.wire.is_gone


@contextmanager
def bounded_time(most_s: float) -> Iterator[None]:
    """What happens inside computes for no longer; the machine may be as busy as it likes. The collector is off: with
    all that a worker of the suite holds by then, one collection takes half a second."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        started = time.thread_time()
        yield
        took_s = time.thread_time() - started
    finally:
        if was_enabled:
            gc.enable()
    assert took_s <= most_s, f"{took_s:.1f} s, {most_s} s are allowed"

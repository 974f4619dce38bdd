"""Limits for every attack: memory, time, and another client that must see no effect."""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.pair import Pair

MIB = 1024 * 1024


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Fail if the block ever allocates more than `most` octets beyond those before it, even temporarily."""
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
    """Another client with a consumer, which checks that it is unaffected."""

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
    """Fail if the block uses more CPU time; a busy machine does not matter.

    The garbage collector is off: with all the objects of a test worker, one collection takes half a second.
    """
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

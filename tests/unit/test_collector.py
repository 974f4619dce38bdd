"""When everything is collected: not on a busy broker if it can wait, not in vain, and never for long."""

import gc
from collections.abc import Iterator

import pytest

from rabbitlike import _build
from rabbitlike.broker import message as message_module
from rabbitlike.broker.message import Message
from rabbitlike.server import collector as collector_module
from rabbitlike.server.collector import ALWAYS, FIRST_MOST, LONGEST_S, PATIENCE, WORTHWHILE, YOUNG, Collector
from rabbitlike.testing import FakeClock


class Machine:
    """Time, processor and memory, moved by hand; and how often everything was collected."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.share = 0.0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.pause_s = 0.001
        self.blocks = 0
        self.collected = 0
        self.trimmed = 0
        self.used_bytes = 50 << 20
        self.resident_bytes = self.used_bytes
        self.collector = Collector(
            self.clock,
            cpu_s=lambda: self.cpu_seconds,
            wall_s=lambda: self.seconds,
            count_blocks=lambda: self.blocks,
            collect=self._collect,
            read_bytes=lambda: self.resident_bytes,
            trim=self._trim,
        )

    def _collect(self) -> int:
        self.collected += 1
        self.seconds += self.pause_s
        return 0

    def _trim(self) -> None:
        self.trimmed += 1
        self.resident_bytes = self.used_bytes

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.seconds += 1.0
            self.cpu_seconds += self.share
            self.clock.advance(1000)


class Garbage:
    """A cycle of one object."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def machine() -> Iterator[Machine]:
    gc.collect()
    gc.disable()  # only what the test makes counts
    machine = Machine()
    machine.collector.freeze()
    machine.collector.start()
    yield machine
    machine.collector.stop()
    gc.unfreeze()
    gc.enable()


def make_objects(count: int) -> list[list[object]]:
    return [[None] for _ in range(count)]


def test_an_idle_broker_collects_nothing(machine: Machine) -> None:
    machine.tick(100)
    assert machine.collected == 0


def test_what_was_left_behind_is_collected_when_idle(machine: Machine) -> None:
    kept = make_objects(2 * WORTHWHILE)
    machine.tick()
    assert machine.collected == 1
    assert machine.collector.count == 1
    del kept


def test_a_busy_broker_is_left_in_peace_for_a_while(machine: Machine) -> None:
    kept = make_objects(2 * WORTHWHILE)
    machine.share = 0.9
    machine.tick(PATIENCE - 1)
    assert machine.collected == 0
    machine.tick()
    assert machine.collected == 1
    del kept


def test_there_is_no_collection_that_would_take_long(machine: Machine) -> None:
    """Too many objects: none until they are fewer, which memory blocks tell."""
    for _ in range(FIRST_MOST // YOUNG + 1):
        gc.collect(0)  # as if as many had been made as start it
    machine.blocks = FIRST_MOST * 3
    machine.tick(3 * PATIENCE)
    assert machine.collected == 0
    machine.blocks = FIRST_MOST
    machine.tick(PATIENCE)
    assert machine.collected == 1


def test_how_many_objects_are_too_many_is_learned(machine: Machine) -> None:
    """On a machine on which a visit takes long, or with objects for which it does."""
    kept = make_objects(2 * ALWAYS)
    machine.pause_s = 4 * LONGEST_S
    machine.tick()
    assert machine.collected == 1
    machine.blocks = FIRST_MOST * 3
    kept += make_objects(2 * ALWAYS)  # fewer than was thought to be too many at first
    machine.tick(5)
    assert machine.collected == 1
    del kept


def test_the_longest_pause_is_known(machine: Machine) -> None:
    kept = make_objects(2 * WORTHWHILE)
    machine.pause_s = 0.005
    machine.tick()
    assert machine.collector.longest_s == pytest.approx(0.005)
    del kept


def test_cycles_are_freed() -> None:
    """With the real collector, in the oldest generation, which Python does not collect by itself any more."""
    before, generations = gc.get_threshold(), gc.isenabled()
    clock = FakeClock()
    collector = Collector(clock, cpu_s=lambda: 0.0)
    try:
        gc.enable()
        collector_module.set_thresholds()
        collector.freeze()
        collector.start()
        for _ in range(WORTHWHILE):
            Garbage()
        gc.collect(1)  # those made from here on are young
        old = [Garbage() for _ in range(WORTHWHILE)]
        gc.collect(1)
        old.clear()
        made = make_objects(2 * WORTHWHILE)
        assert sum(isinstance(each, Garbage) for each in gc.get_objects()) >= WORTHWHILE
        clock.advance(1000)
        assert sum(isinstance(each, Garbage) for each in gc.get_objects()) == 0
        del made
    finally:
        collector.stop()
        gc.unfreeze()
        gc.set_threshold(*before)
        if not generations:
            gc.disable()


def test_compiled_messages_are_none_of_the_collectors_business() -> None:
    """Millions of them may wait: none may be visited."""
    if str(message_module.__file__).endswith(".py"):
        pytest.skip("the pure build's are tracked; it collects less")
    assert not gc.is_tracked(Message(b"", b"", b"", False, 0, 0))


def test_no_directive_stands_where_cython_passes_over_it() -> None:
    """Before a class of a .pxd these two do nothing; `CLASS_DIRECTIVES` in _build.py is the place."""
    for name in _build.HOT:
        declared = _build.path_of(name, ".pxd").read_text()
        assert "no_gc" not in declared, name
        assert "freelist" not in declared, name


def test_freed_memory_is_returned_once_in_an_idle_moment() -> None:
    machine = Machine()
    machine.collector.start()
    machine.tick(5)
    first = machine.trimmed
    assert first <= 1
    machine.share = 0.9
    machine.resident_bytes = 300 << 20
    machine.tick(10)
    assert machine.trimmed == first, "a busy broker needs it again"
    machine.share = 0.0
    machine.tick()
    assert (machine.trimmed, machine.resident_bytes) == (first + 1, 50 << 20)
    machine.tick(60)
    assert machine.trimmed == first + 1
    machine.used_bytes = machine.resident_bytes = 200 << 20  # a backlog that stays
    machine.tick(60)
    assert machine.trimmed == first + 2
    machine.blocks = 500_000
    machine.tick(5)
    machine.blocks, machine.used_bytes = 100_000, 60 << 20  # now it goes
    machine.tick(5)
    assert (machine.trimmed, machine.resident_bytes) == (first + 3, 60 << 20)
    machine.collector.stop()

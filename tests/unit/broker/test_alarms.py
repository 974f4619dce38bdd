"""Alarms: who is told what, and when memory is low."""

import os
from pathlib import Path

import pytest

from rabbitlike.broker.alarms import (
    BLOCK_BYTES,
    DISK,
    MEMORY,
    Alarms,
    DiskWatch,
    MemoryWatch,
    memory_limit,
    resident_bytes,
    return_freed_memory,
    total_bytes,
)
from rabbitlike.testing import FakeClock

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Gauge:
    """Memory set by hand."""

    def __init__(self, used: int) -> None:
        self.used = used
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return self.used


def watch(alarms: Alarms, clock: FakeClock, gauge: Gauge) -> MemoryWatch:
    return MemoryWatch(alarms, clock, 100, read=gauge.read, trim=lambda: None, count_blocks=lambda: 0)


def test_listeners_are_told_of_changes_only() -> None:
    alarms, told = Alarms(), []

    def listener(source: str, raised: bool) -> None:
        told.append((source, raised, bool(alarms.active)))

    alarms.listen(listener)
    alarms.clear(MEMORY)
    alarms.raise_(MEMORY)
    alarms.raise_(MEMORY)
    alarms.raise_(DISK)
    alarms.clear(MEMORY)
    alarms.clear(DISK)
    assert told == [("memory", True, True), ("disk", True, True), ("memory", False, True), ("disk", False, False)]


def test_the_reason_told_to_clients() -> None:
    """#39 the words connection.blocked carries."""
    alarms = Alarms()
    assert alarms.reason == ""
    alarms.raise_(DISK)
    assert alarms.reason == "low on disk"
    alarms.raise_(MEMORY)
    assert alarms.reason == "low on memory & disk"
    alarms.clear(DISK)
    assert alarms.reason == "low on memory"


def test_memory_is_looked_at_once_a_second() -> None:
    alarms, clock, gauge = Alarms(), FakeClock(), Gauge(100)
    watcher = watch(alarms, clock, gauge)
    watcher.start()
    assert not alarms.active  # the limit itself is allowed
    gauge.used = 101
    clock.advance(999)
    assert not alarms.active
    clock.advance(1)
    assert alarms.active == {MEMORY}
    assert watcher.used_bytes == 101
    gauge.used = 100
    clock.advance(1000)
    assert not alarms.active
    watcher.stop()
    watcher.stop()
    gauge.used = 1000
    clock.advance(10_000)
    assert not alarms.active
    assert clock.pending == 0


def test_too_large_from_the_start() -> None:
    alarms = Alarms()
    watch(alarms, FakeClock(), Gauge(101)).start()
    assert alarms.active == {MEMORY}


def test_starting_twice_is_starting_once() -> None:
    clock = FakeClock()
    watcher = watch(Alarms(), clock, Gauge(0))
    watcher.start()
    watcher.start()
    assert clock.pending == 1


def test_freed_memory_is_returned_before_the_alarm_is_raised() -> None:
    alarms, gauge = Alarms(), Gauge(200)

    def trim() -> None:
        gauge.used = 50

    MemoryWatch(alarms, FakeClock(), 100, read=gauge.read, trim=trim, count_blocks=lambda: 0).check()
    assert not alarms.active
    MemoryWatch(alarms, FakeClock(), 100, read=gauge.read, trim=lambda: pytest.fail("nothing to return")).check()


@pytest.mark.parametrize(
    ("watermark", "limit"), [(0.5, 500), (1.0, 1000), (1, 1000), (0.0, 0), (400, 400), (5000, 1000)]
)
def test_limits_are_fractions_or_bytes(watermark: float, limit: int) -> None:
    assert memory_limit(watermark, 1000) == limit


def test_the_process_has_a_size() -> None:
    assert 1 << 20 < resident_bytes() < PHYSICAL
    return_freed_memory()
    assert 0 < total_bytes() <= PHYSICAL


def test_resident_size_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    assert resident_bytes() > 1 << 20


def fake_system(folder: Path, groups: str, limits: dict[str, str]) -> tuple[Path, Path]:
    proc, cgroups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(groups)
    for path, limit in limits.items():
        file = cgroups / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit)
    return proc, cgroups


@pytest.mark.parametrize(
    ("groups", "limits", "total"),
    [
        ("0::/\n", {"memory.max": "1000000\n"}, 1_000_000),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "2000000\n"}, 2_000_000),
        ("0::/a/b\n", {"a/b/memory.max": "3000000\n", "a/memory.max": "2000000\n"}, 2_000_000),
        ("0::/unseen/from/here\n", {"memory.max": "1000000\n"}, 1_000_000),
        ("5:cpu:/x\n4:memory,hugetlb:/x\n", {"memory/x/memory.limit_in_bytes": "4000000\n"}, 4_000_000),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, PHYSICAL),
        ("0::/\n", {"memory.max": "max\n"}, PHYSICAL),
        ("0::/\n", {}, PHYSICAL),
        ("", {}, PHYSICAL),
    ],
)
def test_control_groups_limit_what_there_is(tmp_path: Path, groups: str, limits: dict[str, str], total: int) -> None:
    assert total_bytes(*fake_system(tmp_path, groups, limits)) == total


def test_a_system_without_proc(tmp_path: Path) -> None:
    assert total_bytes(tmp_path / "proc", tmp_path / "cgroup") == PHYSICAL


def test_room_in_the_store_counts_as_free_space(tmp_path: Path) -> None:
    alarms, clock = Alarms(), FakeClock()
    free, spare = 100, 0
    watch = DiskWatch(alarms, clock, 80, tmp_path, read_free=lambda _: free, spare=lambda: spare)
    watch.start()
    assert not alarms.active
    free = 50
    clock.advance(1000)
    assert alarms.reason == "low on disk"
    spare = 30
    clock.advance(1000)
    assert not alarms.active
    watch.failing(True)
    assert alarms.reason == "low on disk", "room is no use while writing fails"
    watch.stop()


def test_a_fault_of_the_store_raises_the_alarm_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alarms, clock = Alarms(), FakeClock()
    fault: Exception | None = None
    watch = DiskWatch(alarms, clock, 80, tmp_path, read_free=lambda _: 100, find_fault=lambda: fault)
    watch.start()
    assert not alarms.active
    fault = ValueError("rabbitlike.db was deleted")
    clock.advance(1000)
    assert alarms.reason == "low on disk"
    clock.advance(5000)
    assert caplog.text.count("rabbitlike.db was deleted") == 1
    fault = None
    clock.advance(1000)
    assert not alarms.active
    watch.stop()


def test_memory_that_is_free_but_not_returned_does_not_hold_the_alarm() -> None:
    """Consumers have drained the queues, nobody publishes, and the allocator cannot return what was freed."""
    alarms, clock, gauge = Alarms(), FakeClock(), Gauge(120_000)
    blocks = 2000
    watch = MemoryWatch(alarms, clock, 100_000, read=gauge.read, trim=lambda: None, count_blocks=lambda: blocks)
    watch.start()
    assert alarms.active == {MEMORY}
    clock.advance(60_000)
    assert alarms.active == {MEMORY}, "nothing was freed"
    blocks = 1500  # 500 blocks of 48 octets and more
    clock.advance(1000)
    assert not alarms.active
    assert watch.used_bytes == 120_000 - 500 * BLOCK_BYTES
    clock.advance(60_000)
    assert not alarms.active, "and it stays so"
    blocks = 1900
    clock.advance(1000)
    assert alarms.active == {MEMORY}, "what was free is in use again"


def test_what_was_returned_is_not_counted_off_twice() -> None:
    alarms, clock, gauge = Alarms(), FakeClock(), Gauge(200_000)
    blocks = 4000
    watch = MemoryWatch(alarms, clock, 100_000, read=gauge.read, trim=lambda: None, count_blocks=lambda: blocks)
    watch.start()
    blocks, gauge.used = 3000, 152_000  # 48,000 octets were freed, and are gone
    clock.advance(1000)
    assert watch.used_bytes == 152_000
    blocks, gauge.used = 3000, 260_000  # large bodies, which are in no block
    clock.advance(1000)
    assert alarms.active == {MEMORY}
    assert watch.used_bytes == 260_000 - 48_000
    blocks, gauge.used = 3000, 90_000
    clock.advance(1000)
    assert not alarms.active
    blocks, gauge.used = 3000, 110_000
    clock.advance(1000)
    assert alarms.active == {MEMORY}, "it starts anew: the process has been smaller meanwhile"

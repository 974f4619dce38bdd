"""The commit loop: groups what arrives while a commit runs, in order, and loses nothing to a commit that fails."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from rabbitlike.storage import writer as writer_module
from rabbitlike.storage.api import Record, StorageError, Work, WorkError
from rabbitlike.storage.writer import Writer

FULL = StorageError("no space left")


class Desk:
    """A journal and a disk: what is put gathers, a commit lasts until it is let through."""

    def __init__(self) -> None:
        self.number = 1
        self.gathered: list[str] = []
        self.commits: list[list[str]] = []
        self.events: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.faults: list[StorageError] = []
        self.is_held = False
        self.writer = Writer(self.commit, self.take, self.committed, self.failed, self.resumed, is_held=self.hold)

    def put(self, name: str) -> int:
        self.gathered.append(name)
        self.writer.wake()
        return self.number

    def hold(self) -> bool:
        return self.is_held

    def take(self) -> Work:
        taken, self.gathered = self.gathered, []
        number = self.number
        self.number += 1
        return Work(records=[Record("queue", name, "") for name in taken], number=number)

    async def commit(self, work: Work) -> None:
        names = [record.key for record in work.records]
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.commits.append(names)

    def committed(self, number: int) -> None:
        self.events.append(f"committed {number}")

    def failed(self, error: StorageError) -> None:
        self.events.append(f"failed {error}")

    def resumed(self) -> None:
        self.events.append("resumed")


@pytest.fixture
async def desk(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(writer_module, "FIRST_DELAY_S", 0.001)
    desk = Desk()
    desk.writer.start()
    yield desk
    desk.gate.set()
    desk.faults.clear()
    await desk.writer.close()


async def until_committed(desk: Desk) -> None:
    for _ in range(500):
        if desk.commits:
            return
        await asyncio.sleep(0.001)


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_lone_change_is_committed_at_once(desk: Desk) -> None:
    assert desk.put("a") == 1
    await turns()
    assert desk.commits == [["a"]]
    assert desk.events == ["committed 1"]


async def test_what_arrives_meanwhile_is_one_commit(desk: Desk) -> None:
    desk.gate.clear()
    assert desk.put("a") == 1
    await turns()
    assert [desk.put(name) for name in "bcd"] == [2, 2, 2]
    await turns()
    assert desk.commits == []
    desk.gate.set()
    await turns()
    assert desk.commits == [["a"], ["b", "c", "d"]]
    assert desk.events == ["committed 1", "committed 2"]


async def test_nothing_is_taken_while_that_is_held(desk: Desk) -> None:
    """Neither by a writer that slept nor by one that had a commit under way when it began."""
    for is_busy in (False, True):
        desk.gate.clear()
        if is_busy:
            desk.put("before")
            await turns()
        desk.is_held = True
        desk.put("a")
        desk.gate.set()
        await turns()
        desk.put("b")
        await turns()
        assert desk.gathered == ["a", "b"]
        desk.is_held = False
        desk.writer.wake()
        await turns()
        assert desk.commits.pop() == ["a", "b"]


async def test_what_is_put_in_one_turn_is_one_commit(desk: Desk) -> None:
    for name in "abc":
        desk.put(name)
    await turns()
    assert desk.commits == [["a", "b", "c"]]


async def test_nothing_taken_is_nothing_written_but_reported(desk: Desk) -> None:
    """Everything was settled before it was taken: whoever waits for its number must not wait forever."""
    desk.writer.wake()
    await turns()
    assert desk.commits == []
    assert desk.events == ["committed 1"]
    assert desk.put("a") == 2


async def test_what_is_reported_is_the_number_of_the_work(desk: Desk) -> None:
    """Who takes counts, and nobody else: also where the count does not begin at 1."""
    desk.number = 41
    assert desk.put("a") == 41
    await turns()
    desk.writer.wake()
    await turns()
    assert desk.events == ["committed 41", "committed 42"]


async def test_waking_often_commits_once(desk: Desk) -> None:
    desk.put("a")
    for _ in range(5):
        desk.writer.wake()
    await turns()
    assert desk.events == ["committed 1"]


async def test_a_failed_commit_is_tried_again_with_the_same_work(desk: Desk) -> None:
    desk.faults = [FULL, FULL]
    desk.put("a")
    await turns()
    assert desk.writer.error is FULL
    desk.put("b")
    await asyncio.sleep(0.05)
    assert desk.commits == [["a"], ["b"]]
    await turns()
    assert desk.events == ["failed no space left", "failed no space left", "resumed", "committed 1", "committed 2"]
    assert desk.writer.error is None


async def test_attempts_come_less_and_less_often(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(writer_module, "FIRST_DELAY_S", 0.1)
    monkeypatch.setattr(desk.writer, "_pause", note)
    desk.faults = [FULL] * 9
    desk.put("a")
    await until_committed(desk)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5])


async def test_commits_that_go_on_failing_are_reported_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def no_time(seconds: float) -> None:
        pass

    monkeypatch.setattr(writer_module, "FIRST_DELAY_S", 5.0)
    monkeypatch.setattr(desk.writer, "_pause", no_time)
    desk.faults = [FULL] * 25  # two minutes
    desk.put("a")
    await until_committed(desk)
    assert caplog.text.count("commit failed: no space left") == 3


async def test_work_that_can_never_be_stored_is_said_to_be_so(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.faults = [WorkError("no such table"), WorkError("no such table")]
    desk.put("a")
    await until_committed(desk)
    (record,) = [each for each in caplog.records if "commit failed" in each.message]
    assert record.levelname == "CRITICAL"
    assert "for good: no such table; nothing more is confirmed until the broker is restarted" in record.message


async def test_closing_does_not_wait_for_the_next_attempt(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has room again: the last changes are written at once, not in a while."""
    monkeypatch.setattr(writer_module, "FIRST_DELAY_S", 3600.0)
    desk.faults = [FULL]
    desk.put("a")
    await turns()
    assert desk.writer.error is FULL
    async with asyncio.timeout(5):
        await desk.writer.close()
    assert desk.commits == [["a"]]


async def test_a_fault_of_who_is_told_does_not_end_it(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.writer._committed = lambda number: desk.events.append(str(1 // 0))
    desk.put("a")
    await turns()
    desk.put("b")
    await turns()
    assert desk.commits == [["a"], ["b"]]
    assert "ZeroDivisionError" in caplog.text


async def test_closing_commits_what_is_left(desk: Desk) -> None:
    desk.gate.clear()
    desk.put("a")
    await turns()
    desk.put("b")
    closing = asyncio.create_task(desk.writer.close())
    await turns()
    desk.put("c")
    desk.gate.set()
    await closing
    assert desk.commits == [["a"], ["b", "c"]]


async def test_closing_takes_even_what_nobody_woke_for(desk: Desk) -> None:
    desk.gathered.append("a")
    await desk.writer.close()
    assert desk.commits == [["a"]]


async def test_closing_waits_for_a_slow_commit(desk: Desk) -> None:
    desk.gate.clear()
    desk.put("a")
    closing = asyncio.create_task(desk.writer.close(grace_s=0.01))
    await asyncio.sleep(0.05)
    assert not closing.done()
    desk.gate.set()
    await closing
    assert desk.commits == [["a"]]


async def test_closing_gives_up_on_a_disk_that_stays_full() -> None:
    desk = Desk()
    desk.writer.start()
    desk.faults = [FULL] * 1000
    desk.put("a")
    with pytest.raises(StorageError, match="last changes could not be written: no space left"):
        await desk.writer.close(grace_s=0.05)


async def test_closing_one_that_was_never_started() -> None:
    await Desk().writer.close()


async def test_commits_with_something_in_them_are_timed() -> None:
    took: list[tuple[float, int]] = []
    work = [Work(), Work(records=[Record("queue", "a", "")]), Work()]
    committed: asyncio.Queue[int] = asyncio.Queue()

    async def commit(_: Work) -> None:
        await asyncio.sleep(0)

    writer = Writer(
        commit,
        lambda: work.pop(0),
        committed.put_nowait,
        lambda error: None,
        lambda: None,
        lambda seconds, done: took.append((seconds, len(done.records))),
    )
    writer.start()
    writer.wake()
    await committed.get()
    assert took == []
    writer.wake()
    await committed.get()
    [(seconds, records)] = took
    assert seconds > 0
    assert records == 1
    await writer.close()


async def test_what_is_written_is_not_held_until_there_is_more(desk: Desk) -> None:
    """The last commit before a pause may have been a large one."""
    desk.put("large")
    await asyncio.sleep(0.05)
    assert desk.events == ["committed 1"]
    held = [each for each in gc.get_objects() if isinstance(each, Work) and each.records]
    assert "large" not in [record.key for work in held for record in work.records]

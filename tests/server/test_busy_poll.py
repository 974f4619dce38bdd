"""The loop stays awake for a while after each read, and only then."""

import asyncio
from pathlib import Path

from rabbitlike.app import App
from rabbitlike.config import Settings
from rabbitlike.protocol.handshake import PROTOCOL_HEADER
from rabbitlike.server.busy_poll import BusyPoll, make_busy_poll, usable_processors


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def some_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_awake_until_the_time_is_over() -> None:
    seconds = Seconds()
    busy_poll = BusyPoll(asyncio.get_running_loop(), 0.5, seconds)
    assert not busy_poll.is_awake
    busy_poll.prolong()
    seconds.now = 0.4
    await some_turns()
    assert busy_poll.is_awake
    busy_poll.prolong()
    seconds.now = 0.8
    await some_turns()
    assert busy_poll.is_awake, "the last read counts"
    seconds.now = 0.9
    await some_turns()
    assert not busy_poll.is_awake
    busy_poll.prolong()
    await some_turns()
    assert busy_poll.is_awake, "it can be woken again"
    seconds.now = 9.0


async def test_reads_keep_the_broker_awake(tmp_path: Path) -> None:
    app = App(Settings(host="127.0.0.1", port=0, management_port=None, data_dir=tmp_path))
    await app.start()
    seconds = Seconds()
    busy_poll = app.transports.busy_poll = BusyPoll(asyncio.get_running_loop(), 0.5, seconds)
    port = int(app.urls[0].rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PROTOCOL_HEADER)
    assert await reader.readexactly(1)
    await some_turns()
    assert busy_poll.is_awake
    seconds.now = 1.0
    await some_turns()
    assert not busy_poll.is_awake

    (connection,) = app.broker.connections
    app.broker.commit_waiters[connection] = None
    before = connection.recv_oct  # type: ignore[attr-defined]
    writer.write(b"\x01")
    async with asyncio.timeout(10):
        while connection.recv_oct == before:  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert not busy_poll.is_awake, "the disk takes longer"
    app.broker.commit_waiters.clear()
    writer.close()
    await app.stop()


class Waiter:
    """A client that waits for a confirm."""

    def committed(self, number: int) -> bool:
        return True

    def commit_failed(self) -> bool:
        return True


async def test_a_confirm_keeps_the_broker_awake(tmp_path: Path) -> None:
    """Its client publishes again. Nobody waits for other commits, so nothing is expected after them."""
    app = App(Settings(host="127.0.0.1", port=0, management_port=None, data_dir=tmp_path))
    await app.start()
    busy_poll = app._busy_poll = BusyPoll(asyncio.get_running_loop(), 0.5, Seconds())
    assert app.broker.journal is not None
    before = app.broker.journal.committed
    app.broker.journal.ask()
    async with asyncio.timeout(10):
        while app.broker.journal.committed == before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert not busy_poll.is_awake
    app.broker.commit_waiters[Waiter()] = None
    app.broker.journal.ask()
    async with asyncio.timeout(10):
        while app.broker.commit_waiters:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert busy_poll.is_awake
    app._busy_poll = None
    busy_poll._until = 0.0
    await app.stop()


async def test_off_where_it_is_not_wanted_or_does_harm() -> None:
    loop = asyncio.get_running_loop()
    assert make_busy_poll(loop, 0, 8.0) is None
    assert make_busy_poll(loop, 50, 1.5) is None
    assert make_busy_poll(loop, 50, 2.0) is not None


def test_processors_of_a_container(tmp_path: Path) -> None:
    all_of_them = usable_processors(tmp_path)
    assert all_of_them >= 1
    limit = tmp_path / "cpu.max"
    limit.write_text("50000 100000\n")
    assert usable_processors(tmp_path) == 0.5
    limit.write_text("max 100000\n")
    assert usable_processors(tmp_path) == all_of_them

"""The store alone, without broker and sockets: what the disk and SQLite allow. Try `-m benchmarks.storage -h`."""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import get_args

from rabbitlike.storage.api import Batch, StorageError, Work
from rabbitlike.storage.database import Durability
from rabbitlike.storage.store import LOG_BYTES, SqliteStore
from rabbitlike.storage.writer import Writer

#: Octets of a packed message besides its body.
OVERHEAD = 40


def batch(number: int, data: bytes, count: int) -> Batch:
    first = (number - 1) * count + 1
    return Batch(number, 1, 4, first, first + count - 1, count, len(data), 0, data=data)


def spread(times: list[float]) -> str:
    ordered = sorted(times)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3 for part in (0.5, 0.99, 1)]
    return f"p50 {at[0]:6.2f}  p99 {at[1]:6.2f}  max {at[2]:6.1f} ms"


class Sizes:
    """Sizes of the write-ahead log and the database file."""

    def __init__(self, store: SqliteStore) -> None:
        self._path = store.path
        self._log = store.path.with_name(f"{store.path.name}-wal")
        self.log_peak = 0

    def look(self) -> None:
        self.log_peak = max(self.log_peak, self._log.stat().st_size)

    def __str__(self) -> str:
        return f"log at most {self.log_peak >> 20} MB, file {self._path.stat().st_size >> 20} MB"


async def throughput(store: SqliteStore, options: argparse.Namespace, size: int, count: int, kept: int | None) -> None:
    """Measure successive commits of one batch of `count` messages; each deletes the batch `kept` before it, if set."""
    data = os.urandom((size + OVERHEAD) * count)
    sizes = Sizes(store)
    times: list[float] = []
    number = 0
    processor, started = time.process_time(), time.perf_counter()
    while (now := time.perf_counter()) - started < options.seconds:
        number += 1
        removed = [number - kept] if kept is not None and number > kept else []
        await store.commit(Work(batches=[batch(number, data, count)], removed_batches=removed))
        times.append(time.perf_counter() - now)
        if number % 16 == 0:
            sizes.look()
    elapsed = time.perf_counter() - started
    processor = time.process_time() - processor
    what = f"{size} B × {count}, {'backlog grows' if kept is None else f'{kept} batches kept'}"
    print(
        f"{what:34} {number * count / elapsed:12,.0f} messages/s  {len(data) * number / elapsed / 1e6:5.0f} MB/s  "
        f"{spread(times)}  {processor / elapsed:4.0%} of a core  {sizes}",
        flush=True,
    )


async def latency(store: SqliteStore, options: argparse.Namespace, size: int) -> None:
    """Measure one message in flight: from its arrival to the confirm, through the commit loop."""
    data = os.urandom(size + OVERHEAD)
    times: list[float] = []
    done = asyncio.get_running_loop().create_future()
    gathered = Work()
    began = time.perf_counter()
    deadline = began + options.seconds

    def arrive() -> None:
        nonlocal began
        began = time.perf_counter()
        gathered.batches.append(batch(len(times) + 1, data, 1))
        if len(times) > 3:
            gathered.removed_batches.append(len(times) - 3)
        writer.wake()

    def take() -> Work:
        nonlocal gathered
        taken, gathered = gathered, Work()
        return taken

    def committed(_number: int) -> None:
        now = time.perf_counter()
        times.append(now - began)
        if now < deadline:
            arrive()
        elif not done.done():
            done.set_result(None)

    def failed(error: StorageError) -> None:
        raise error

    writer = Writer(store.commit, take, committed, failed, lambda: None)
    writer.start()
    arrive()
    await done
    await writer.close()
    print(f"{f'{size} B, one in flight':34} {len(times) / options.seconds:12,.0f} messages/s  {spread(times)}")


async def fill(store: SqliteStore, size: int, count: int, batches: int) -> None:
    data = os.urandom((size + OVERHEAD) * count)
    for number in range(1, batches + 1):
        await store.commit(Work(batches=[batch(number, data, count)]))


def drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


async def boot(folder: Path, options: argparse.Namespace, size: int, batches: int) -> None:
    store = SqliteStore(folder, "off")
    await store.open()
    await fill(store, size, 1000, batches)
    await store.close()
    if options.cold:
        drop_caches()
    store = SqliteStore(folder, options.durability)
    started = time.perf_counter()
    recovered = await store.open()
    opened = time.perf_counter() - started
    messages = sum(each.count for each in recovered.batches)
    reads: list[float] = []
    for number in random.choices(range(1, batches + 1), k=200):
        started = time.perf_counter()
        store.read(number)
        reads.append(time.perf_counter() - started)
    megabytes = store.path.stat().st_size >> 20
    started = time.perf_counter()
    await store.commit(Work(removed_queues=[1]))
    deleted = time.perf_counter() - started
    print(
        f"boot with {messages:,} of {size} B in {megabytes} MB: {opened:.3f} s; read() of {(size + OVERHEAD) // 1} KB: "
        f"{spread(reads)}, mean {statistics.mean(reads) * 1e3:.2f}; deleting the queue {deleted:.3f} s",
        flush=True,
    )
    await store.close()


async def run(options: argparse.Namespace) -> None:
    async def with_store(name: str, scenario: Callable[[SqliteStore], Awaitable[None]]) -> None:
        if options.only and name not in options.only:
            return
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            store = SqliteStore(Path(folder), options.durability, log_bytes=options.log_megabytes << 20)
            await store.open()
            await scenario(store)
            await store.close()

    print(f"durability {options.durability}, log {options.log_megabytes} MB, {options.seconds} s each")
    await with_store("latency", lambda store: latency(store, options, 1024))
    await with_store("consumed", lambda store: throughput(store, options, 1024, 1000, 4))
    await with_store("backlog", lambda store: throughput(store, options, 1024, 1000, None))
    await with_store("small", lambda store: throughput(store, options, 16, 1000, 4))
    await with_store("half", lambda store: throughput(store, options, 1024, 500, 4))
    for messages in options.boot:
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            await boot(folder, options, options.boot_bytes, messages // 1000)
        finally:
            shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured; default: the temporary folder")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--durability", choices=get_args(Durability), default="full")
    parser.add_argument("--log-megabytes", type=int, default=LOG_BYTES >> 20)
    parser.add_argument("--only", nargs="*", help="latency consumed backlog small half")
    parser.add_argument("--boot", nargs="*", type=int, default=[], help="numbers of messages to boot with")
    parser.add_argument("--boot-bytes", type=int, default=64, help="their size")
    parser.add_argument("--cold", action="store_true", help="drop the system's caches before a boot (root only)")
    options = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        asyncio.run(run(options))
    else:
        uvloop.run(run(options))


if __name__ == "__main__":
    main()

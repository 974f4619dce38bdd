"""A process that commits batch after batch and says so; it goes on where the one before it ended.

`committing.py FOLDER DURABILITY COUNT LOG_BYTES`
"""

import asyncio
import os
import sys
from pathlib import Path

from rabbitlike.storage import upkeep
from rabbitlike.storage.api import Batch, Work
from rabbitlike.storage.database import Durability
from rabbitlike.storage.store import SqliteStore

#: So many batches are kept: each commit deletes the one before them.
KEPT = 10


def data_of(number: int) -> bytes:
    return b"%08d" % number * (number % 50 * 100 + 1)


def batch(number: int) -> Batch:
    return Batch(number, 1, 4, number, number, 1, 8, 0, data=data_of(number))


async def run(folder: Path, durability: Durability, count: int, log_bytes: int) -> None:
    store = SqliteStore(folder, durability, log_bytes=log_bytes)
    recovered = await store.open()
    last = max((each.last_position for each in recovered.batches), default=0)
    for number in range(last + 1, last + count + 1):
        os.write(1, b"began %d\n" % number)
        removed = [number - KEPT] if number > KEPT else []
        await store.commit(Work(batches=[batch(number)], removed_batches=removed, marks=[(1, number + 1, 0)]))
        os.write(1, b"committed %d\n" % number)
    await store.close()


if __name__ == "__main__":
    _, folder, durability, count, log_bytes = sys.argv
    upkeep.LULL_S = 600.0  # type: ignore[misc]  # a slow fsync on a busy disk is no lull
    asyncio.run(run(Path(folder), durability, int(count), int(log_bytes)))  # type: ignore[arg-type]

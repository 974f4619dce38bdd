"""`rabbitlike serve` for the crash suite: a short write-ahead log, which starts over often, and sabotage on demand.

CRASH_SABOTAGE names what is done to the commits, to prove that the checker notices:
  hasty      says that a commit is done and does it a little later
  forgetful  says that a commit is done and leaves every third out
  torn       does a commit in two steps, with a pause between them
  unsettled  writes messages, and never what became of them
  unmarked   writes messages, and never which of them were handed out
and "slow", which is no sabotage: commits take long, as on a slow disk
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rabbitlike.cli import main
from rabbitlike.storage.api import Recovered, Work
from rabbitlike.storage.store import SqliteStore

LOG_BYTES = 1 << 20
PAUSE_S = 0.05

Commit = Callable[[SqliteStore, Work], Awaitable[None]]
commit: Commit = SqliteStore.commit
open_store = SqliteStore.open
late: list[asyncio.Task[None]] = []


async def hasty(store: SqliteStore, work: Work) -> None:
    async def write() -> None:
        if before is not None:
            await before
        await asyncio.sleep(PAUSE_S)
        await commit(store, work)

    before = late[-1] if late else None
    late.append(asyncio.create_task(write()))
    if work.records:
        await late[-1]  # without its queues there would be no load


async def forgetful(store: SqliteStore, work: Work) -> None:
    late.append(asyncio.create_task(asyncio.sleep(0)))
    if work.records or len(late) % 3:
        await commit(store, work)


async def torn(store: SqliteStore, work: Work) -> None:
    # Queues that were declared one after the other are on different sides.
    first = [batch for batch in work.batches if batch.queue_id % 2]
    second = [batch for batch in work.batches if not batch.queue_id % 2]
    await commit(store, replace(work, batches=first, removed_batches=[], settled=[], attempts=[]))
    await asyncio.sleep(PAUSE_S)
    await commit(store, replace(work, records=[], removed_records=[], removed_queues=[], batches=second))


async def unsettled(store: SqliteStore, work: Work) -> None:
    await commit(store, replace(work, removed_batches=[], settled=[]))


async def unmarked(store: SqliteStore, work: Work) -> None:
    await commit(store, replace(work, marks=[(queue_id, following, 0) for queue_id, following, _ in work.marks]))


async def slow(store: SqliteStore, work: Work) -> None:
    await asyncio.sleep(PAUSE_S)
    await commit(store, work)


SABOTAGE: dict[str, Commit] = {
    "slow": slow,
    "hasty": hasty,
    "forgetful": forgetful,
    "torn": torn,
    "unsettled": unsettled,
    "unmarked": unmarked,
}


async def open_short(store: SqliteStore) -> Recovered:
    store._log_bytes = LOG_BYTES
    return await open_store(store)


if __name__ == "__main__":
    SqliteStore.open = open_short  # type: ignore[assignment,method-assign]
    if chosen := os.environ.get("CRASH_SABOTAGE"):
        SqliteStore.commit = SABOTAGE[chosen]  # type: ignore[assignment,method-assign]
    sys.exit(main(sys.argv[1:]))

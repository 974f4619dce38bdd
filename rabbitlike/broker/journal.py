"""The journal: all changes since the last commit, for the writer.

The number of a commit is known beforehand: a change added now is safe once commit `number` is done. The writer takes
all changes between two turns, so a commit never contains only part of a turn: a dead letter leaves one queue and enters
another, and a transaction reaches all its queues, in one commit or not at all. Work that takes several turns and must
be in one commit holds the journal meanwhile.
"""

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Protocol

from rabbitlike.storage.api import Record, Work


class Changed(Protocol):
    """A queue's log."""

    is_touched: bool

    def take(self, work: Work) -> None: ...

    def written(self) -> None: ...


class Journal:
    """The journal of a broker; one per broker with a durable store."""

    __slots__ = (
        "_held_number",
        "_holders",
        "_last_batch_id",
        "_logs",
        "_records",
        "_taken_batch_id",
        "_wake",
        "_work",
        "_writing",
        "committed",
        "fresh_bytes",
        "is_failing",
        "is_held",
        "number",
        "recorded",
        "writing_bytes",
        "written_batch_id",
    )

    def __init__(self, wake: Callable[[], None]) -> None:
        #: The commit that will contain changes added now. The only counter of commits: `take` passes it to the work.
        self.number = 1
        #: The last commit that is done.
        self.committed = 0
        #: Commits fail at present.
        self.is_failing = False
        #: Number of records ever written or removed: tells a handler whether its answer must wait for a commit.
        self.recorded = 0
        #: Memory of the messages in the next commit, and in the commit under way. A small message counts as
        #: `COMMIT_COST`.
        self.fresh_bytes = 0
        self.writing_bytes = 0
        self._last_batch_id = 0
        self._taken_batch_id = 0
        #: Batches up to this one are on disk, unless they were removed again.
        self.written_batch_id = 0
        self._logs: list[Changed] = []
        #: The logs in the commit under way.
        self._writing: list[Changed] = []
        self._work = Work()
        #: The last change of each record since the last commit; None: remove it.
        self._records: dict[tuple[str, str], Record | None] = {}
        self._wake = wake
        #: Whether the journal is held, so that nothing may be taken; the last commit that was held; and the callbacks
        #: waiting to hold a later one.
        self.is_held = False
        self._held_number = 0
        self._holders: deque[Callable[[], None]] = deque()

    def start(self, last_batch_id: int) -> None:
        """Continue after the recovered batches."""
        self._last_batch_id = self.written_batch_id = last_batch_id

    @property
    def pending_bytes(self) -> int:
        """Memory of all messages to be stored that are not committed yet."""
        return self.fresh_bytes + self.writing_bytes

    def next_batch_id(self) -> int:
        self._last_batch_id += 1
        return self._last_batch_id

    def touch(self, log: Changed) -> None:
        """Add a log with changes to the next commit. A log calls this once per commit."""
        log.is_touched = True
        self._logs.append(log)
        self._wake()

    def ask(self) -> None:
        """Request a commit even if there is nothing to write: a client waits for it."""
        self._wake()

    def write(self, record: Record) -> None:
        self.recorded += 1
        self._records[record.kind, record.key] = record
        self._wake()

    def erase(self, kind: str, key: str) -> None:
        self.recorded += 1
        self._records[kind, key] = None
        self._wake()

    def remove_queue(self, queue_id: int) -> None:
        self._work.removed_queues.append(queue_id)
        self._wake()

    def forget(self, owner: str) -> None:
        """Remove all deduplication keys of a queue or exchange."""
        self._work.forgotten_owners.append(owner)
        self._wake()

    def hold(self, then: Callable[[], None]) -> None:
        """Take nothing until `release`. ``then`` is called once the journal is held: now, or after other holders.

        Each commit is held at most once, so that confirms of others wait for one holder only."""
        self._holders.append(then)
        self._give_hold()

    def release(self) -> None:
        """End the hold: the commit is complete."""
        self.is_held = False
        self._wake()

    def _give_hold(self) -> None:
        if self._holders and not self.is_held and self._held_number < self.number:
            self.is_held = True
            self._held_number = self.number
            self._holders.popleft()()

    def take(self) -> Work:
        """All changes up to now, as the commit with the present number. The previous commit must be done, and the
        journal must not be held."""
        work = self._work
        for (kind, key), record in self._records.items():
            if record is None:
                work.removed_records.append((kind, key))
            else:
                work.records.append(record)
        self._records = {}
        self._writing = self._logs
        self._work = Work()
        self._logs = []
        self.writing_bytes = self.fresh_bytes
        self.fresh_bytes = 0
        work.number = self.number
        self.number += 1
        for log in self._writing:
            log.take(work)
        self._taken_batch_id = self._last_batch_id
        if self._held_number == self.number - 1:
            work.batches.sort(key=attrgetter("batch_id"))  # logs made some of them in earlier turns
        self._give_hold()
        return work

    def finish(self, number: int) -> list[Changed]:
        """Note that commit ``number`` is done and return the logs that were in it."""
        self.committed = number
        self.is_failing = False
        self.written_batch_id = self._taken_batch_id
        self.writing_bytes = 0
        done = self._writing
        self._writing = []
        return done

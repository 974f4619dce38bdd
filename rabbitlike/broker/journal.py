"""What changed since the last commit, on its way to the store.

The number of a commit is known before it happens: whatever is added now will be safe once commit `number` is. The
writer takes everything between two turns, so a commit never holds half of what one read brought about: a dead letter
leaves one queue and enters another, and a transaction reaches all its queues, in one commit or not at all. What takes
several turns and must be in one commit holds the journal meanwhile.
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
    """One per broker with a durable store."""

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
        #: The commit that what is added now will be in. The one count of commits: `take` gives it to the work.
        self.number = 1
        #: The last commit that is done.
        self.committed = 0
        #: Commits fail at present.
        self.is_failing = False
        #: How many records were written or removed, ever: a handler sees by it whether its answer must wait.
        self.recorded = 0
        #: Memory of the messages that the next commit will write, and of those in the commit under way; a small message
        #: counts as `COMMIT_COST`.
        self.fresh_bytes = 0
        self.writing_bytes = 0
        self._last_batch_id = 0
        self._taken_batch_id = 0
        #: Batches up to this one are on disk, unless they are gone again.
        self.written_batch_id = 0
        self._logs: list[Changed] = []
        #: Those in the commit under way.
        self._writing: list[Changed] = []
        self._work = Work()
        #: The last word on each record since the last commit; None: it is to go.
        self._records: dict[tuple[str, str], Record | None] = {}
        self._wake = wake
        #: Nothing may be taken now. In which commit it was so last, and who waits to hold it in a later one.
        self.is_held = False
        self._held_number = 0
        self._holders: deque[Callable[[], None]] = deque()

    def start(self, last_batch_id: int) -> None:
        """Go on behind what was recovered."""
        self._last_batch_id = self.written_batch_id = last_batch_id

    @property
    def pending_bytes(self) -> int:
        """Memory of all messages that are to be written and are not committed yet."""
        return self.fresh_bytes + self.writing_bytes

    def next_batch_id(self) -> int:
        self._last_batch_id += 1
        return self._last_batch_id

    def touch(self, log: Changed) -> None:
        """This log has something to write; it asks once per commit."""
        log.is_touched = True
        self._logs.append(log)
        self._wake()

    def ask(self) -> None:
        """Somebody waits for the present commit, whether or not there is anything in it."""
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
        """All keys that a queue or exchange has seen are to go."""
        self._work.forgotten_owners.append(owner)
        self._wake()

    def hold(self, then: Callable[[], None]) -> None:
        """Let nothing be taken until `release`, and call ``then``: now, or when it is this caller's turn.

        Each commit is held once at most: confirms of others wait for one holder and not for a row of them."""
        self._holders.append(then)
        self._give_hold()

    def release(self) -> None:
        """All is there that must be in one commit."""
        self.is_held = False
        self._wake()

    def _give_hold(self) -> None:
        if self._holders and not self.is_held and self._held_number < self.number:
            self.is_held = True
            self._held_number = self.number
            self._holders.popleft()()

    def take(self) -> Work:
        """Everything up to now, as the commit with the present number. The last one is done by then, and nobody holds
        the journal."""
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
            work.batches.sort(key=attrgetter("batch_id"))  # logs made some of them in turns before
        self._give_hold()
        return work

    def finish(self, number: int) -> list[Changed]:
        """Commit ``number`` is done; the logs that were in it."""
        self.committed = number
        self.is_failing = False
        self.written_batch_id = self._taken_batch_id
        self.writing_bytes = 0
        done = self._writing
        self._writing = []
        return done

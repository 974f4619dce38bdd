"""Records the last commits beside the database, so that damage in the write-ahead log is detected.

SQLite reads a log up to the first damaged frame and silently ignores the rest. So the broker notes after each commit
how many frames the log has; if SQLite later reads fewer, the log is damaged. A note is one write without a sync, made
while the confirm is being sent. It survives the end of the process. After a power cut, or if the process ends within
these microseconds, an older note is left: it proves less, but nothing false. The file exists while a broker serves, and
after a broker was killed.
"""

import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from rabbitlike.storage.api import StorageError
from rabbitlike.storage.database import PAGE_BYTES, Durability, connect_to_read, log_of
from rabbitlike.storage.errors import explain
from rabbitlike.storage.wal import LogIndex, LogState, commits_from, salts_of

FILE_NAME: Final = "commits"
#: Number of commits in the ring, from which the broker computes how much is missing.
SLOTS: Final = 1024
_SLOT: Final = struct.Struct("<Q8sIIQQ16sII")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Note(NamedTuple):
    """One commit."""

    #: `number` and `messages` count from the start of the broker.
    number: int
    salts: bytes
    frames: int
    copied: int
    messages: int
    at_ms: int
    #: The machine's boot id, and whether commits were synced.
    boot: bytes
    is_synced: int


def record_of(path: Path) -> Path:
    """The path of the record beside a database."""
    return path.with_name(FILE_NAME)


class CommitRecord:
    """The record as the committing thread writes it."""

    def __init__(self, path: Path, durability: Durability) -> None:
        """Needs an open connection that has read something. Raise OSError."""
        self._index = LogIndex(path)
        self._boot = _boot()
        self._is_synced = durability == "full"
        self._number = 0
        self._messages = 0
        self._file = os.open(record_of(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # a full disk
            os.pwrite(self._file, bytes(SLOTS * _SLOT.size), 0)

    def state(self) -> LogState | None:
        """The state of the log; None if SQLite's index cannot be read."""
        return self._index.read()

    def add(self, messages: int) -> None:
        """Note a finished commit."""
        self._number += 1
        self._messages += messages
        self.renew()

    def renew(self) -> None:
        """Update the last note after a checkpoint."""
        state = self._index.read()
        if state is None:
            return
        slot = _SLOT.pack(
            self._number, *state, self._messages, int(time.time() * 1000), self._boot, self._is_synced, 0
        )[:-4]
        try:
            os.pwrite(self._file, slot + crc32(slot).to_bytes(4, "little"), self._number % SLOTS * _SLOT.size)
        except OSError:
            pass  # the commit is done nevertheless

    def close(self) -> None:
        """Close the record after the last connection."""
        os.close(self._file)
        self._index.close()


def remove_record(path: Path) -> None:
    """Remove the record before SQLite deletes the log. Synced, or after a power cut the log would be reported
    missing."""
    with suppress(FileNotFoundError):
        record_of(path).unlink()
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def notes_of(path: Path) -> list[Note]:
    """The readable notes, oldest first."""
    try:
        octets = record_of(path).read_bytes()
    except FileNotFoundError:
        return []
    slots = [octets[at : at + _SLOT.size] for at in range(0, len(octets), _SLOT.size)]
    notes = [
        Note(*_SLOT.unpack(slot)[:-1])
        for slot in slots
        if len(slot) == _SLOT.size and int.from_bytes(slot[-4:], "little") == crc32(slot[:-4])
    ]
    return sorted(note for note in notes if note.number)


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Commits that were done but are not in the log that SQLite reads."""

    path: Path
    words: str
    #: A checkpoint has copied all of them into the database: the log is not needed.
    is_copied: bool = False
    #: Why this may not be damage; empty if it is.
    excuse: str = ""
    #: Nothing proves that commits are lost.
    is_unproven: bool = False

    def __str__(self) -> str:
        return f"{self.words}: {self.excuse}" if self.excuse else self.words

    def refusal(self) -> StorageError:
        return StorageError(f"{self.path} is damaged: {self.words}; restore a backup, or {self.remedy()}")

    def remedy(self) -> str:
        return f"remove {record_of(self.path)} to start with what is left, which may not be consistent"


def find_damage(path: Path) -> LogDamage | None:
    """Compare the log with the record. Call it under the lock, before any connection that may write.

    Changes nothing. A connection that may write would, when it closes, copy the readable part of the log into the
    database, over newer pages.
    """
    try:
        notes = notes_of(path)
        taken = _taken_by_sqlite(path) if notes and path.exists() else None
        return None if taken is None else _compare(path, notes, salts_of(log_of(path)), taken)
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from error


def clear(path: Path) -> list[str]:
    """Make sure that the log may be used; return what to report about it. Raise StorageError if commits are lost."""
    damage = find_damage(path)
    if damage is None:
        return []
    if damage.is_copied:
        aside = log_of(path).with_name(f"{log_of(path).name}.damaged")
        log_of(path).rename(aside)
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        return [f"{damage.words}: all of it is in the database, and the log was renamed to {aside}"]
    if damage.excuse:
        return [str(damage)]
    raise damage.refusal()


def _taken_by_sqlite(path: Path) -> LogState | None:
    connection = connect_to_read(path)
    index = None
    try:
        with suppress(sqlite3.DatabaseError):  # pages of different commits; by then SQLite has read the log
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        index = LogIndex(path)
        return index.read()
    finally:
        connection.close()
        if index is not None:
            index.close()


def _compare(path: Path, notes: list[Note], salts: bytes | None, taken: LogState) -> LogDamage | None:
    last = notes[-1]
    log = log_of(path)
    if salts is not None and salts != last.salts:
        # SQLite restarts a log only when the database has all of it, and adds one to the first salt.
        if 0 < _first_word(salts) - _first_word(last.salts) & 0xFFFFFFFF < 1 << 31:
            return None
        return LogDamage(path, f"{log} is older than the last commit{_when(last)}")
    is_power_cut = not last.is_synced and last.boot != _boot()
    excuse = "the machine went down, and commits are not synced with this durability" if is_power_cut else ""
    is_copied = last.copied >= last.frames
    if salts is None:
        if is_copied:
            return None
        missing = _missing(notes, last.copied)
        if log.exists() and log.stat().st_size:
            return LogDamage(path, f"{log} has no valid header, {missing}", excuse=excuse)
        if path.stat().st_mtime_ns > last.at_ms * 1_000_000:  # as SQLite's own shell does
            excuse = (
                "unless another program has copied it into the database, which was written to after the last commit"
            )
        return LogDamage(path, f"{log} is missing, {missing}", excuse=excuse, is_unproven=excuse.startswith("unless"))
    if taken.frames < last.frames:
        lost = "nothing is lost" if is_copied else _missing(notes, taken.frames)
        words = f"{log} cannot be read past frame {taken.frames} of {last.frames}, {lost}"
        return LogDamage(path, words, is_copied, excuse)
    if last.is_synced and _is_more_than_one_commit(commits_from(log, taken.frames, PAGE_BYTES, salts)):
        return LogDamage(path, f"{log} cannot be read past frame {taken.frames}, but completed commits follow it")
    return None


def _is_more_than_one_commit(ends: Iterator[bool]) -> bool:
    """Whether more than one commit is missing. A crash can truncate only one: the next begins after it was synced."""
    return any(ends) and any(True for _ in ends)


def _missing(notes: list[Note], frames: int) -> str:
    """Describe how much the commits after this frame held."""
    last = notes[-1]
    kept = [note for note in notes if note.salts != last.salts or note.frames <= frames]
    commits, messages = (kept[-1].number, kept[-1].messages) if kept else (notes[0].number - 1, 0)
    more = "more than " if not kept and commits else ""
    if more:
        messages = notes[0].messages
    commits, messages = last.number - commits, last.messages - messages
    return f"{more}{commits} commits with up to {messages:,} messages are lost, the last{_when(last)}"


def _when(note: Note) -> str:
    return time.strftime(" of %Y-%m-%d %H:%M:%S UTC", time.gmtime(note.at_ms / 1000))


def _first_word(salts: bytes) -> int:
    return int.from_bytes(salts[:4], "big")


def _boot() -> bytes:
    try:
        return bytes.fromhex(_BOOT_ID.read_text().strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (OSError, ValueError):  # not on Linux
        return bytes(16)

"""Reads SQLite's write-ahead log and its index (https://sqlite.org/walformat.html): which log it is, how many frames
are committed, and how many of them a checkpoint has copied into the database.

SQLite's locks on the index belong to the process: closing any handle on the file drops them. So close a LogIndex only
after the last connection.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

#: The headers of a frame and of the log.
FRAME_HEAD_BYTES: Final = 24
LOG_HEAD_BYTES: Final = 32

_VERSION: Final = 3007000
#: The byte order of checksums, by magic number.
_WORDS: Final = {0x377F0682: "<6I", 0x377F0683: ">6I"}
_LOG_HEAD: Final = struct.Struct(">4I8sII")
#: iVersion, mxFrame, aSalt; the second copy of this header is skipped; then nBackfill.
_INDEX: Final = struct.Struct("=I12xI12x8s8x48xI")


class LogState(NamedTuple):
    """One run of the log, from one restart to the next."""

    #: Identify the run: a restart adds one to the first word and randomizes the second.
    salts: bytes
    #: Committed frames, and those of them that are in the database.
    frames: int
    copied: int


class LogIndex:
    """The index (`-shm`) of a log. It exists while a connection is open that has read something."""

    def __init__(self, path: Path) -> None:
        # Kept open until the connections are closed: closing it drops SQLite's lock, which shows our use to other
        # processes.
        self._handle = os.open(path.with_name(f"{path.name}-shm"), os.O_RDONLY | os.O_CLOEXEC)
        self._map = mmap.mmap(self._handle, _INDEX.size, access=mmap.ACCESS_READ)

    def read(self) -> LogState | None:
        """The state of the log; None for another index format. Exact unless a commit is running."""
        version, frames, salts, copied = _INDEX.unpack_from(self._map)
        return LogState(salts, frames, copied) if version == _VERSION else None

    def close(self) -> None:
        self._map.close()
        os.close(self._handle)


def salts_of(log: Path) -> bytes | None:
    """The salts of a log; None if its header is invalid, so that SQLite ignores the log."""
    try:
        with log.open("rb") as file:
            head = file.read(LOG_HEAD_BYTES)
    except FileNotFoundError:
        return None
    if len(head) < LOG_HEAD_BYTES:
        return None
    magic, version, _, _, salts, *checksum = _LOG_HEAD.unpack(head)
    if version != _VERSION or magic not in _WORDS:
        return None
    one = two = 0
    words = struct.unpack_from(_WORDS[magic], head)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return salts if [one, two] == checksum else None


def commits_from(log: Path, frame: int, page_bytes: int, salts: bytes) -> Iterator[bool]:
    """Yield for each frame after `frame` with these salts, valid or not, whether it ends a commit."""
    frame_bytes = FRAME_HEAD_BYTES + page_bytes
    with log.open("rb", buffering=0) as file:
        for at in range(LOG_HEAD_BYTES + frame * frame_bytes, os.fstat(file.fileno()).st_size, frame_bytes):
            head = os.pread(file.fileno(), FRAME_HEAD_BYTES, at)
            if head[8:16] == salts:
                yield head[4:8] != bytes(4)

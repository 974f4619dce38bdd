"""Access modes: files of the broker are private to its user (folders 0700, files 0600), whatever the umask.

SQLite gives its log and index the mode of the database file, so that file is created before SQLite opens it.
"""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger(__name__)


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file and make it private: the `opener` of `open()`. Devices and pipes keep their mode."""
    handle = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    state = os.fstat(handle)
    if stat.S_ISREG(state.st_mode) and stat.S_IMODE(state.st_mode) != FILE_MODE:
        with suppress(PermissionError):  # it belongs to another user
            os.fchmod(handle, FILE_MODE)
    return handle


def make_private_file(path: Path) -> None:
    """Make an empty private file, unless it exists."""
    if not path.exists():
        os.close(private(path, os.O_RDWR | os.O_CREAT))


def make_private_folder(folder: Path) -> None:
    """Make a private folder that survives a power cut, unless it exists. Folders above it get default modes."""
    if folder.is_dir():
        return
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    folder.chmod(FOLDER_MODE)
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def make_private_folders(folder: Path, *, below: Path) -> None:
    """Make a private folder and all missing folders between it and `below`, inclusive. A power cut may remove them."""
    if folder.is_dir():
        return
    if folder != below:
        make_private_folders(folder.parent, below=below)
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    folder.chmod(FOLDER_MODE)


def tighten(folder: Path, *names: str) -> None:
    """Make the data folder, and the files in it that match the patterns, private; log a warning if they were not.

    A folder that also holds other files (`/tmp`, a home) keeps its mode: others may need access.
    """
    folder = folder.resolve()
    ours = {path for name in names for path in folder.glob(name)}
    count = sum(map(_tighten, ours))
    if all(path in ours or path.name == "lost+found" for path in folder.iterdir()):
        count += _tighten(folder)
    if count:
        log.warning(
            "data folder %s: other users could access %d files and directories; changed their modes", folder, count
        )


def _tighten(path: Path) -> int:
    """Make a file, or a folder with its contents, private; return how many were not. A private folder hides its
    contents."""
    try:
        mode = path.lstat().st_mode
        if not mode & OTHERS or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return 0
        count = 0
        if stat.S_ISDIR(mode):
            count = sum(map(_tighten, path.iterdir()))
        path.chmod(FOLDER_MODE if stat.S_ISDIR(mode) else FILE_MODE)
    except FileNotFoundError:
        return 0
    except OSError as error:
        log.warning("other users can access %s, and its mode cannot be changed: %s", path, error.strerror)
        return 0
    return count + 1

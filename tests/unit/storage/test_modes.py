"""Who may read what the broker writes: its own user, whatever the umask, and whatever an older version left."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rabbitlike.storage.backup import backup
from rabbitlike.storage.check import check
from rabbitlike.storage.columns import Numbers
from rabbitlike.storage.event_files import EventFiles, Lot
from rabbitlike.storage.modes import private
from rabbitlike.storage.store import SqliteStore

FOLDER, FILE = 0o700, 0o600


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """All below a folder, and itself."""
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))
    }


def assert_private(folder: Path, *expected: str) -> None:
    found = modes(folder)
    assert set(expected) <= set(found)
    assert found == {name: FOLDER if (folder / name).is_dir() else FILE for name in found}


async def test_store(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "data"
    store = SqliteStore(folder)
    await store.open()
    assert_private(folder, "rabbitlike.db", "rabbitlike.db-wal", "rabbitlike.db-shm", "lock")
    backup(folder, tmp_path / "copy")
    await store.close()
    assert_private(folder, "rabbitlike.db", "lock")
    assert_private(tmp_path / "copy", "rabbitlike.db")
    check(folder)
    check(tmp_path / "copy")
    assert_private(folder)
    assert_private(tmp_path / "copy")


@pytest.mark.parametrize("has_arrow", [True, False])
def test_event_files(tmp_path: Path, has_arrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_arrow:
        monkeypatch.setattr("rabbitlike.storage.event_files.pyarrow", lambda: None)
    files = EventFiles(tmp_path / "events", "n", [("seq", "bigint", False)], max_age_s=60, max_bytes=1 << 20)
    path = files.write(Lot(1, 0, lambda: {"seq": Numbers(range(3))}))
    assert path.suffix == (".parquet" if has_arrow else ".gz")
    assert_private(tmp_path / "events", path.relative_to(tmp_path / "events").as_posix())


async def test_what_was_open_is_closed_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    folder = tmp_path / "data"
    hour = folder / "events" / "date=2026-01-01" / "hour=00"
    store = SqliteStore(folder)
    await store.open()
    await store.close()
    hour.mkdir(parents=True)
    (hour / "ev-n-1.parquet").touch()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    await store.open()
    assert_private(folder, "events/date=2026-01-01/hour=00/ev-n-1.parquet", "rabbitlike.db-wal")
    await store.close()
    await store.open()
    await store.close()
    said = f"data folder {folder}: other users could access 6 files and directories; changed their modes"
    assert caplog.messages == [said], "once"


async def test_a_folder_that_holds_other_things_keeps_its_mode(tmp_path: Path) -> None:
    """Somebody has --data-dir /tmp: others need to get there."""
    (tmp_path / "website").mkdir(mode=0o755)
    os.chmod(tmp_path, 0o755)
    store = SqliteStore(tmp_path)
    await store.open()
    found = modes(tmp_path)
    await store.close()
    assert found.pop(".") == 0o755
    assert found.pop("website") & 0o700
    assert set(found.values()) == {FILE}


def test_devices_and_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    before = os.stat("/dev/null").st_mode
    with open("/dev/null", "w", opener=private) as file:
        file.write("x")
    assert os.stat("/dev/null").st_mode == before

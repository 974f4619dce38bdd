"""Data of every earlier version is served on: `version_1.db.gz` was written by a broker of that schema."""

import gzip
import logging
from contextlib import closing
from pathlib import Path

import pytest

from rabbitlike.storage.check import check
from rabbitlike.storage.database import FILE_NAME, present_version
from tests.support.crash_pair import SqliteDisk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "life 0").mkdir()
    old = Path(__file__).with_name("version_1.db.gz")
    (tmp_path / "life 0" / FILE_NAME).write_bytes(gzip.decompress(old.read_bytes()))
    return tmp_path


def test_a_database_of_the_first_version_can_be_checked(folder: Path) -> None:
    before = (folder / "life 0" / FILE_NAME).read_bytes()
    report = check(folder / "life 0")
    assert report.is_sound
    assert (report.version, report.queues) == (1, 2)
    assert (folder / "life 0" / FILE_NAME).read_bytes() == before


def test_an_upgrade_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rabbitlike.storage")
    with closing(SqliteDisk(folder)) as disk:
        disk.boot()
        lines = [record.getMessage() for record in caplog.records if "schema" in record.getMessage()]
        assert len(lines) == 2
        assert f"upgrading the schema from 1 to {present_version()}; older versions can no longer open it" in lines[0]
        disk.boot()
        assert len([record for record in caplog.records if "schema" in record.getMessage()]) == 2, "once"


def test_a_broker_goes_on_with_what_the_first_version_wrote(folder: Path) -> None:
    with closing(SqliteDisk(folder)) as disk:
        pair = disk.boot()
        ch = pair.connect().channel()
        first = ch.get("q", no_ack=False)
        assert first is not None
        assert (first.body[:2], first.redelivered, first.headers["n"]) == (b"5.", True, 5)
        ch.publish(b"new", exchange="x", key="k", delivery_mode=2)
        while pair.begin_commit():
            pair.end_commit()
        ch = disk.boot(crash=True).connect().channel()  # rows of both versions, the old ones without a checksum
        assert [int(body.split(b".")[0]) for body in ch.drain("q")] == [5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9]
        assert ch.drain("other") == [b"o0", b"o1", b"o2", b"new"]
    report = check(folder / "life 1")
    assert report.is_sound
    assert report.version == present_version()

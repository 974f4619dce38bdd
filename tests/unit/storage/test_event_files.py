"""Files of events: whole or not there, read back as they were written, and not kept for ever."""

import gzip
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from rabbitlike.broker.tracing.event_columns import SCHEMA, columns
from rabbitlike.storage import event_files
from rabbitlike.storage.columns import Column
from rabbitlike.storage.event_files import EventFiles, Lot
from tests.support.pair import Pair

HOUR_MS = 3_600_000


def make_files(folder: Path, *, max_age_s: int = 3600, max_bytes: int = 1 << 30) -> EventFiles:
    return EventFiles(folder, "rabbit@host/1", SCHEMA, max_age_s=max_age_s, max_bytes=max_bytes)


def make_lot(count: int = 3, at_ms: int = 1_700_000_000_000, first: int = 0) -> Lot:
    """Real rows of a broker, said to be of this hour."""
    pair = Pair(event_log=True)
    ch = pair.connect().channel()
    ch.declare("q")
    for number in range(count):
        ch.publish(b"body", key="q", **({"message_id": f"é{number}"} if number % 2 else {}))
    (rows,) = pair.broker.events.blocks()
    return Lot(rows.first_seq + first, at_ms, partial(columns, rows, "rabbit@host"))


def test_read_back_with_pyarrow(tmp_path: Path) -> None:
    """G18 the columns and types of the schema, and the rows in their order."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    lot = make_lot()
    path = make_files(tmp_path).write(lot)
    assert path == tmp_path / "date=2023-11-14" / "hour=22" / f"ev-rabbit@host_1-{lot.first_seq}.parquet"
    file = parquet.ParquetFile(path)
    chunks = [file.metadata.row_group(0).column(number) for number in range(len(SCHEMA))]
    assert {chunk.compression for chunk in chunks} == {"UNCOMPRESSED"}, "there is nothing to gain with a few rows"
    assert file.metadata.row_group(0).column(1).statistics.max is not None
    table = file.read()
    kinds = {
        "bigint": pyarrow.int64(),
        "int": pyarrow.int32(),
        "boolean": pyarrow.bool_(),
        "string": pyarrow.string(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
    }
    assert [(field.name, field.type, field.nullable) for field in table.schema] == [
        (name, kinds[kind], nullable) for name, kind, nullable in SCHEMA
    ]
    rows = table.to_pylist()
    assert [row["event"] for row in rows] == ["publish", "enqueue"] * 3
    assert [row["message_id"] for row in rows] == [None, None, "é1", "é1", None, None]
    assert [row["seq"] for row in rows] == list(range(lot.first_seq, lot.first_seq + 6))
    assert {row["node"] for row in rows} == {"rabbit@host"}
    assert {(row["redelivered"], row["wait_us"], row["consumer_tag"], row["reason"]) for row in rows} == {
        (False, None, None, None)
    }


def test_without_pyarrow_the_same_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "pyarrow", lambda: None)
    path = make_files(tmp_path).write(make_lot())
    assert path.name.endswith(".jsonl.gz")
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    assert [list(row) for row in rows] == [[name for name, _, _ in SCHEMA]] * 6
    assert [row["message_id"] for row in rows] == [None, None, "é1", "é1", None, None]
    assert rows[0]["redelivered"] is False
    assert datetime.fromisoformat(rows[0]["ts"]).tzinfo == UTC


def test_a_crash_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G18 what is not whole has a name nobody reads, and goes at the next start."""
    files = make_files(tmp_path)

    def die(number: int) -> None:
        raise OSError("the machine is off")

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(OSError, match="off"):
        files.write(make_lot())
    monkeypatch.undo()
    assert list(files.files()) == []
    (half,) = tmp_path.glob("*/*/.tmp-*")
    again = make_files(tmp_path)
    assert again.submit(make_lot())
    again.close()
    assert not half.exists()
    assert len(list(again.files())) == 1


def test_a_fault_loses_rows_and_not_the_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = make_files(tmp_path)

    def fail() -> Mapping[str, Column]:
        raise OSError("No space left on device")

    assert files.submit(Lot(1, 0, fail))
    assert files.submit(make_lot())
    files.close()
    assert "events could not be written" in caplog.text
    assert len(list(files.files())) == 1


def test_too_much_at_once_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_files(tmp_path)
    monkeypatch.setattr(event_files.Thread, "start", lambda self: None)
    taken = [files.submit(make_lot()) for _ in range(event_files.WAITING + 1)]
    assert taken == [True] * event_files.WAITING + [False]


def test_at_the_end_there_is_room_for_the_last(tmp_path: Path) -> None:
    """G18 a broker that stops loses nothing, however much waits to be written."""
    files = make_files(tmp_path)
    may_write = Event()
    lots = [make_lot(first=number) for number in range(event_files.WAITING + 3)]
    begun = Event()

    def make() -> Mapping[str, Column]:
        begun.set()
        assert may_write.wait(10)
        return lots[0].make()

    assert files.submit(lots[0]._replace(make=make))
    assert begun.wait(10)
    assert all(files.submit(lot) for lot in lots[1:-2])
    assert not files.submit(lots[-2])
    may_write.set()
    files.drain()
    assert files.submit(lots[-1])
    files.close()
    assert len(list(files.files())) == len(lots) - 1


def test_what_is_too_old_or_too_much_goes(tmp_path: Path) -> None:
    """G18 retention, by age and by size; what is left of folders goes too."""
    start_ms = 1_700_000_000_000
    files = make_files(tmp_path, max_age_s=2 * 3600)
    for hour in range(5):
        at_ms = start_ms + hour * HOUR_MS
        files.write(make_lot(at_ms=at_ms, first=hour))
        files.forget(at_ms)
    assert sorted(path.parent.as_posix()[-18:] for path in files.files()) == [
        "2023-11-15/hour=00", "2023-11-15/hour=01", "2023-11-15/hour=02",
    ]  # fmt: skip
    assert not (tmp_path / "date=2023-11-14").exists()
    small = make_files(tmp_path, max_bytes=1)
    last = small.write(make_lot(at_ms=at_ms, first=9))
    small.forget(at_ms)
    assert list(small.files()) == [last], "what was written just now is kept"

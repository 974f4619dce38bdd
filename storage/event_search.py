"""Searches the event files, newest first. Blocks: call it in a thread."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rabbitlike.storage.columns import Question
from rabbitlike.storage.event_files import pyarrow, shown

Row = dict[str, object]


def search(folder: Path, question: Question) -> list[Row]:
    """The newest matching rows, oldest first."""
    found: list[Row] = []
    for path in sorted(folder.glob("date=*/hour=*/ev-*"), key=_seq_of, reverse=True):
        if not _may_hold(path, question):
            continue
        try:
            rows = list(_read_json(path, question) if path.suffix == ".gz" else _read_parquet(path, question))
        except FileNotFoundError:  # deleted meanwhile because of its age
            continue
        found[:0] = rows[-(question.limit - len(found)) :]
        if len(found) >= question.limit:
            break
    return found


def _seq_of(path: Path) -> int:
    digits = path.name.split(".parquet")[0].split(".jsonl")[0].rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


def _may_hold(path: Path, question: Question) -> bool:
    """Whether the file can contain matching events: a file of an hour holds only events of that hour."""
    hour = path.parent.relative_to(path.parents[2]).as_posix()
    return (question.since_ms is None or hour >= _hour_of(question.since_ms)) and (
        question.until_ms is None or hour <= _hour_of(question.until_ms)
    )


def _hour_of(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):date=%Y-%m-%d/hour=%H}"


def _read_parquet(path: Path, question: Question) -> Iterator[Row]:
    arrow: Any = pyarrow()
    if arrow is None:  # written by an installation with pyarrow
        return
    field = arrow.compute.field
    wanted = field("vhost") == question.vhost
    for name in ("message_id", "queue", "event"):
        word = getattr(question, name)
        if word is not None:
            wanted &= field(name) == word
    if question.since_ms is not None:
        wanted &= field("ts") >= arrow.scalar(question.since_ms * 1000, arrow.timestamp("us", tz="UTC"))
    if question.until_ms is not None:
        wanted &= field("ts") <= arrow.scalar(question.until_ms * 1000, arrow.timestamp("us", tz="UTC"))
    # Open the file alone: the names of its folders are not columns.
    with arrow.parquet.ParquetFile(path) as file:
        found = file.read().filter(wanted)
    times = found.column("ts").cast(arrow.int64()).to_pylist()
    for row, at_us in zip(found.to_pylist(), times, strict=True):
        yield {**row, "ts": shown("timestamp", at_us)}


def _read_json(path: Path, question: Question) -> Iterator[Row]:
    import gzip

    since = None if question.since_ms is None else shown("timestamp", question.since_ms * 1000)
    until = None if question.until_ms is None else shown("timestamp", question.until_ms * 1000)
    words = {"vhost": question.vhost, "message_id": question.message_id, "queue": question.queue}
    asked = {name: word for name, word in {**words, "event": question.event}.items() if word is not None}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            at = row["ts"]
            if (since is None or at >= since) and (until is None or at <= until) and asked.items() <= row.items():
                yield row

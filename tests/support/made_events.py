"""Made-up events as a broker would log them, and their expected metrics, computed in plain Python."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

from rabbitlike.spark.events import COLUMNS

Event = dict[str, Any]
START_US = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp() * 1_000_000)
SECOND_US = 1_000_000
_DEFAULTS = {
    "node": "rabbit@test", "vhost": "/", "queue": "", "exchange": "orders", "routing_key": "k", "msg_seq": 0,
    "priority": 0, "size": 100, "delivery_count": 0, "redelivered": False,
}  # fmt: skip


def event(kind: str, at_us: int, **columns: object) -> Event:
    """Return one row; columns that are not given are null, and `at_us` counts from START_US."""
    row: Event = dict.fromkeys((column.name for column in COLUMNS), None)
    row.update(_DEFAULTS, event=kind, ts=START_US + at_us, **columns)
    row["redelivered"] = row["delivery_count"] > 0
    return row


def numbered(events: Iterable[Event]) -> list[Event]:
    """Sort by time and add sequence numbers."""
    return [{**row, "seq": at} for at, row in enumerate(sorted(events, key=lambda row: row["ts"]), START_US)]


def write(folder: Path, events: Sequence[Event], *, files: int = 1) -> Path:
    """Write events as the broker does, in `files` files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([(column.name, kinds[column.kind]) for column in COLUMNS])
    size = ceil(len(events) / files)
    for at in range(0, len(events), size):
        lot = events[at : at + size]
        hour = datetime.fromtimestamp(lot[0]["ts"] / 1_000_000, UTC)
        place = folder / f"{hour:date=%Y-%m-%d/hour=%H}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.Table.from_pylist(lot, schema=schema),
            place / f"ev-rabbit_test-{lot[0]['seq']}.parquet",
            compression="zstd",
            write_statistics=["seq", "ts"],
            store_schema=False,
        )
    return folder


def lives(messages: int, seconds: int, seed: int = 7) -> list[Event]:
    """Make messages of a few queues with every kind of event."""
    dice = random.Random(seed)
    return numbered(row for number in range(messages) for row in _life(dice, number, seconds * SECOND_US))


def _life(dice: random.Random, number: int, span_us: int) -> Iterator[Event]:
    now = dice.randrange(span_us)
    what = {"priority": dice.choice((0, 0, 0, 4, 9)), "size": dice.randrange(10, 5000), "message_id": f"m-{number}"}
    yield event("publish", now, **what)
    fate = dice.random()
    if fate < 0.02:
        yield event("route_fail", now, **what)
        return
    what |= {"queue": dice.choice(("orders", "mails.out", "prints")), "msg_seq": number + 1}
    group = dice.choice((None, "billing", "audit"))
    if fate < 0.04:
        yield event("drop_overflow", now, reason=dice.choice(("reject-publish", "maxlen")), **what)
        return
    yield event("enqueue", now, **what)
    yield event("confirm", now, reason=None, **{**what, "queue": "", "msg_seq": 0})
    tries = 0
    while True:
        waited = int(dice.lognormvariate(9, 2))
        now += waited
        if dice.random() < 0.03:
            yield event("expire", now, reason="expired", delivery_count=tries, **what)
            if dice.random() < 0.5:
                yield event("dead_letter", now, reason="expired", delivery_count=tries, **what)
            return
        tag, is_auto = f"c{dice.randrange(4)}", tries == 0 and dice.random() < 0.2
        yield event(
            "deliver", now, consumer_tag=tag, consumer_group=group, delivery_count=tries,
            wait_us=waited if tries == 0 else None, reason="auto-ack" if is_auto else None, **what,
        )  # fmt: skip
        if is_auto:
            return
        worked = int(dice.lognormvariate(8, 1.5))
        now += worked
        if dice.random() < 0.75:
            yield event("ack", now, consumer_group=group, delivery_count=tries, proc_us=worked, **what)
            return
        yield event("nack", now, consumer_tag=tag, consumer_group=group, delivery_count=tries, proc_us=worked, **what)
        tries += 1
        if dice.random() < 0.15:
            yield event("dead_letter", now, reason="rejected", delivery_count=tries - 1, **what)
            return
        if tries > 5:
            yield event("expire", now, reason="delivery_limit", delivery_count=tries, **what)
            yield event("dead_letter", now, reason="delivery_limit", delivery_count=tries, **what)
            return
        yield event("requeue", now, delivery_count=tries, **what)


@dataclass
class Told:
    """The expected metrics for one key."""

    counts: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    bytes_in: int = 0
    bytes_out: int = 0
    waits: list[int] = field(default_factory=list)
    works: list[int] = field(default_factory=list)


def oracle(events: Iterable[Event], window_us: int, keys: Sequence[str]) -> dict[tuple[Any, ...], Told]:
    """Compute expected metrics by the values of these columns, which may include `window_us`."""
    found: dict[tuple[Any, ...], Told] = defaultdict(Told)
    for row in events:
        values = {**row, "window_us": row["ts"] - row["ts"] % window_us, "consumer_group": row["consumer_group"] or ""}
        told = found[tuple(values[key] for key in keys)]
        kind = row["event"]
        told.counts[kind] += 1
        if kind == "deliver":
            told.counts["redelivered"] += row["redelivered"]
            told.counts["auto_acked"] += row["reason"] == "auto-ack"
            told.bytes_out += row["size"]
            if row["wait_us"] is not None:
                told.waits.append(row["wait_us"])
        elif kind in ("ack", "nack"):
            told.works.append(row["proc_us"])
        elif kind == "enqueue":
            told.bytes_in += row["size"]
        elif kind == "dead_letter":
            told.dead_letters[row["reason"]] += 1
    return found


def exact_percentile(times: Sequence[int], part: float) -> int:
    """Return the time within which this share of all finished."""
    return sorted(times)[max(1, ceil(part * len(times))) - 1]

"""Events per second of the pipeline: it reads and analyses an hour of made-up events and writes all tables.

The first three runs warm up the JVM, which still optimises its code; the later ones count. Events are made with
pyarrow, a column at a time: 20 queues, 5 priorities, 3 consumer groups and one-minute windows, so 18,000 groups.
"""

import shutil
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from rich.console import Console

QUEUES, PRIORITIES, GROUPS, CONSUMERS = 20, 5, 3, 8
PER_FILE = 500_000
START_US = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1_000_000)
HOUR_US = 3_600_000_000
#: Events with their shares of the total, in the order of their numbers.
PARTS = {
    "publish": 0.2, "enqueue": 0.2, "confirm": 0.2, "deliver": 0.2, "ack": 0.16, "nack": 0.015, "requeue": 0.01,
    "expire": 0.005, "dead_letter": 0.005, "drop_overflow": 0.003, "route_fail": 0.002,
}  # fmt: skip
REASONS = ("rejected", "expired", "delivery_limit")


def _numbers(count: int, below: int) -> Any:
    return pc.cast(pc.multiply(pc.random(count), float(below)), pa.int32(), safe=False)


def _words(codes: Any, words: list[str]) -> Any:
    return pa.DictionaryArray.from_arrays(pc.cast(codes, pa.int32()), pa.array(words))


def _lot(first: int, count: int, total: int) -> pa.Table:
    """Make the events of a part of the hour."""
    number = pc.add(pc.cumulative_sum(pa.nulls(count, pa.int64()).fill_null(1)), first - 1)
    at_us = pc.add(
        pc.cast(pc.multiply(pc.cast(number, pa.float64()), HOUR_US / total), pa.int64(), safe=False), START_US
    )
    chance, code, so_far = pc.random(count), pa.nulls(count, pa.int32()).fill_null(0), 0.0
    for part in PARTS.values():
        so_far += part
        code = pc.add(code, pc.cast(pc.greater_equal(chance, so_far), pa.int32()))
    names = list(PARTS)
    code = pc.min_element_wise(code, pa.scalar(len(names) - 1, pa.int32()))

    def is_any(*events: str) -> Any:
        return pc.is_in(code, pa.array([names.index(event) for event in events], pa.int32()))

    given, settled = is_any("deliver"), is_any("ack", "nack")
    before = is_any("publish", "confirm", "route_fail")
    again = pc.less(pc.random(count), 0.03)
    spread = pc.add(pc.add(pc.random(count), pc.random(count)), pc.random(count))
    time_us = pc.multiply(pc.cast(pc.exp(pc.multiply(spread, 3.0)), pa.int64(), safe=False), 1000)
    nothing, zero = pa.scalar(None, pa.int32()), pa.scalar(0, pa.int32())
    same = pc.multiply(code, zero)
    return pa.table(
        {
            "seq": pc.add(number, START_US),
            "ts": pc.cast(at_us, pa.timestamp("us", "UTC")),
            "node": _words(same, ["rabbit@host"]),
            "vhost": _words(same, ["/"]),
            "event": _words(code, names),
            "queue": _words(
                pc.if_else(before, pa.scalar(QUEUES, pa.int32()), _numbers(count, QUEUES)),
                [*(f"queue-{each}" for each in range(QUEUES)), ""],
            ),
            "exchange": _words(same, ["orders"]),
            "routing_key": _words(_numbers(count, 50), [f"key.{each}" for each in range(50)]),
            "msg_seq": number,
            "message_id": pc.binary_join_element_wise("m-", pc.cast(number, pa.string()), ""),
            "priority": _numbers(count, PRIORITIES),
            "consumer_tag": _words(
                pc.if_else(given, _numbers(count, CONSUMERS), nothing), [f"ctag{each}" for each in range(CONSUMERS)]
            ),
            "consumer_group": _words(
                pc.if_else(pc.or_(given, settled), _numbers(count, GROUPS), nothing), ["billing", "audit", "mail"]
            ),
            "size": _numbers(count, 2000),
            "delivery_count": pc.if_else(again, _numbers(count, 5), zero),
            "redelivered": again,
            "wait_us": pc.if_else(pc.and_(given, pc.invert(again)), time_us, None),
            "proc_us": pc.if_else(settled, time_us, None),
            "reason": _words(
                pc.if_else(is_any("expire", "dead_letter"), _numbers(count, len(REASONS)), nothing), list(REASONS)
            ),
        }
    )


def make(folder: Path, total: int) -> None:
    """Write `total` events as files like the broker's."""
    place = folder / f"{datetime.fromtimestamp(START_US / 1e6, UTC):date=%Y-%m-%d/hour=%H}"
    place.mkdir(parents=True)
    for first in range(0, total, PER_FILE):
        lot = _lot(first, min(PER_FILE, total - first), total)
        pq.write_table(
            lot, place / f"ev-rabbit@host-{START_US + first}.parquet", compression="zstd", store_schema=False
        )


def main(
    events: Annotated[int, typer.Option(min=1000, help="How many.")] = 5_000_000,
    repeat: Annotated[int, typer.Option(min=1, help="Warm runs, of which the median counts.")] = 3,
    warm_up: Annotated[int, typer.Option(min=1, help="Runs before those.")] = 3,
    master: Annotated[str, typer.Option(help="Spark's.")] = "local[*]",
) -> None:
    """Measure the pipeline."""
    from rabbitlike.spark.jobs import inputs, outputs, session
    from rabbitlike.spark.jobs.batch import work_out
    from rabbitlike.spark.jobs.results import Settings

    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="rabbitlike-bench-"))
    try:
        began = time.monotonic()
        make(folder / "events", events)
        found = inputs.find(str(folder / "events"))
        console.print(f"{events:,} events made in {time.monotonic() - began:.1f} s, {found.size / 1e6:.0f} MB")
        spark = session.start(master)
        java = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        settings, took = Settings(60_000_000), []
        for number in range(warm_up + repeat):
            began, cpu = time.monotonic(), _cpu_s(java)
            work = work_out(inputs.read(spark, found), settings)
            counted = time.monotonic() - began
            outputs.write(work.results, str(folder / "out"), settings.window_us)
            took.append(time.monotonic() - began)
            name = "warm" if number >= warm_up else "warming up" if number else "cold"
            console.print(
                f"{name}: {took[-1]:.1f} s, {events / took[-1]:,.0f} events/s; counted after {counted:.1f} s; "
                f"{_cpu_s(java) - cpu:.1f} s of CPU"
            )
        console.print(f"median of the warm: {events / statistics.median(took[warm_up:]):,.0f} events/s", style="bold")
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far, if /proc exists."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    typer.run(main)

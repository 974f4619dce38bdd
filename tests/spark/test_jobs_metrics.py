"""Metrics of the event log against the same numbers counted in plain Python."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rabbitlike.spark.events import DDL
from rabbitlike.spark.jobs import partials
from rabbitlike.spark.jobs.histogram import ERROR, PERCENTILES, bucket_of, middle_us, percentile
from rabbitlike.spark.jobs.metrics import COUNTS, METRIC, summarise, sums
from rabbitlike.spark.jobs.partials import PLACE, Partials
from tests.support import made_events
from tests.support.made_events import Event, Told, exact_percentile, oracle

WINDOW_US = 20_000_000
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def events() -> list[Event]:
    found = made_events.lives(1000, seconds=120)
    assert 4000 < len(found) < 8000
    return found


@pytest.fixture(scope="module")
def counted(spark: SparkSession, events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> Partials:
    folder = made_events.write(tmp_path_factory.mktemp("events"), events, files=3)
    return partials.count(read(spark, folder), WINDOW_US)


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.schema(DDL).option("recursiveFileLookup", "true").parquet(str(folder))


def rows_by(frame: DataFrame, keys: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = {tuple(row[key] for key in keys): row.asDict(recursive=True) for row in frame.collect()}
    return found


@pytest.mark.parametrize("keys", [METRIC, PLACE, ("vhost", "queue")], ids=["finest", "by queue", "in all"])
def test_metrics_are_what_plain_python_counts(counted: Partials, events: list[Event], keys: tuple[str, ...]) -> None:
    found = rows_by(summarise(sums(counted.cells), keys, WINDOW_US), keys)
    true = oracle(events, WINDOW_US, keys)
    assert found.keys() == true.keys()
    for key, told in true.items():
        same_counts(found[key], told)
        same_times(found[key], told)


def same_counts(row: dict[str, Any], told: Told) -> None:
    assert {name: row[name] for name in COUNTS} == {name: told.counts[kind] for name, kind in COUNTS.items()}
    assert row["redelivered"] == told.counts["redelivered"]
    assert row["auto_acked"] == told.counts["auto_acked"]
    assert row["dead_letters"] == dict(told.dead_letters)
    assert (row["bytes_in"], row["bytes_out"]) == (told.bytes_in, told.bytes_out)
    if "bytes_in_per_s" in row:
        assert row["bytes_in_per_s"] == pytest.approx(told.bytes_in / 20)
        assert row["delivered_per_s"] == pytest.approx(told.counts["deliver"] / 20)
    delivered = told.counts["deliver"]
    assert row["redelivery_rate"] == pytest.approx(told.counts["redelivered"] / delivered if delivered else 0)


def same_times(row: dict[str, Any], told: Told) -> None:
    for kind, times in (("wait", told.waits), ("proc", told.works)):
        assert row[f"{kind}_n"] == (len(times) or None)
        assert row[f"{kind}_max_us"] == max(times, default=None)
        for name, part in PERCENTILES.items():
            shown = row[f"{kind}_{name}_us"]
            if not times:
                assert shown is None
            else:
                # One more for the rounding of the smallest times.
                assert shown == pytest.approx(exact_percentile(times, part), rel=ERROR, abs=1)


def test_partials_of_lots_add_up_to_those_of_all(spark: SparkSession, events: list[Event], tmp_path: Path) -> None:
    """Whatever is split, and however: also the events of one message."""
    lots = [made_events.write(tmp_path / str(lot), events[lot::3]) for lot in range(3)]
    parts = [partials.count(read(spark, lot), WINDOW_US).tables() for lot in lots]
    union = {
        name: parts[0][name].unionByName(parts[1][name]).unionByName(parts[2][name])
        for name in ("cells", "consumers", "suspects")
    }
    added = partials.merge(Partials(**union))
    whole = partials.count(read(spark, tmp_path), WINDOW_US)
    for name, table in added.tables().items():
        assert sorted(map(repr, table.collect())) == sorted(map(repr, whole.tables()[name].collect())), name


def test_histograms_are_those_of_the_times(counted: Partials, events: list[Event]) -> None:
    keys = ("vhost", "queue")
    frame = summarise(sums(counted.cells), keys, WINDOW_US, histograms=True)
    found = rows_by(frame, keys)
    for key, told in oracle(events, WINDOW_US, keys).items():
        true: dict[int, int] = {}
        for time in told.works:
            true[bucket_of(time)] = true.get(bucket_of(time), 0) + 1
        assert found[key]["proc_histogram"] == true


def test_what_leaves_a_queue(spark: SparkSession, tmp_path: Path) -> None:
    """Enqueued five: one is acked, one rejected without a dead letter, one given up after tries; two are there."""
    kinds = [
        *("enqueue",) * 5, *("deliver",) * 3, "ack", "nack", "nack", "requeue", "deliver", "nack",
    ]  # fmt: skip
    made = [made_events.event(kind, at, queue="q") for at, kind in enumerate(kinds)]
    made.append(made_events.event("expire", 99, queue="q", reason="delivery_limit"))
    folder = made_events.write(tmp_path, made_events.numbered(made))
    (row,) = summarise(sums(partials.count(read(spark, folder), WINDOW_US).cells), PLACE, WINDOW_US).collect()
    assert (row.gone, row.rejected, row.depth_change) == (3, 1, 2)
    assert row.expiries == {"delivery_limit": 1}


def test_the_finest_grain_has_rates_of_its_window(counted: Partials) -> None:
    assert {"enqueued_per_s", "bytes_out_per_s"} <= set(summarise(sums(counted.cells), METRIC, WINDOW_US).columns)
    assert "enqueued_per_s" not in summarise(sums(counted.cells), ("vhost", "queue"), WINDOW_US).columns


@pytest.mark.parametrize("time_us", [0, 1, 2, 7, 999, 1000, 123_456, 3_600_000_000, 10**12])
def test_a_bucket_is_never_further_off_than_its_error(time_us: int) -> None:
    assert middle_us(bucket_of(time_us)) == pytest.approx(time_us, rel=ERROR, abs=1)


def test_percentiles_of_counts() -> None:
    assert percentile({}, 0.5, 0) is None
    assert percentile({0: 10}, 0.99, 0) == 0
    assert percentile({40: 99, 80: 1}, 0.99, 10**9) == middle_us(40)
    assert percentile({40: 98, 80: 2}, 0.99, 10**9) == middle_us(80)
    assert percentile({80: 1}, 0.5, 17) == 17, "never more than the longest"

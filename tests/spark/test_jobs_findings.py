"""What stands out: priorities that starve, windows unlike others, messages that never succeed, lopsided consumers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from rabbitlike.spark.events import DDL
from rabbitlike.spark.jobs import anomalies, partials, poison, starvation
from rabbitlike.spark.jobs.metrics import summarise, sums
from rabbitlike.spark.jobs.partials import PLACE, Partials
from tests.support import made_events
from tests.support.made_events import SECOND_US, START_US, Event, event

WINDOW_US = 10 * SECOND_US
pytestmark = pytest.mark.spark

Count = Callable[[Iterator[Event]], Partials]


@pytest.fixture
def count(spark: SparkSession, tmp_path: Path) -> Count:
    def counted(events: Iterator[Event]) -> Partials:
        folder = made_events.write(tmp_path, made_events.numbered(events))
        table = spark.read.schema(DDL).option("recursiveFileLookup", "true").parquet(str(folder))
        return partials.count(table, WINDOW_US)

    return counted


def window_of(row: Row) -> int:
    return int(row.window_us - START_US) // WINDOW_US


def passing(window: int, number: int, wait_us: int = 1000, **what: object) -> Iterator[Event]:
    """Messages that are enqueued, delivered and acked within a window."""
    for at in range(number):
        now = window * WINDOW_US + at * 10
        yield event("enqueue", now, **what)
        yield event("deliver", now, wait_us=wait_us, consumer_tag="c", **what)
        yield event("ack", now, proc_us=500, **what)


def test_a_priority_that_gets_nothing_while_a_higher_one_does_starves(count: Count) -> None:
    def made() -> Iterator[Event]:
        for window in range(8):
            yield from passing(window, 20, queue="q", priority=9)
            for at in range(10 if window < 5 else 0):
                yield event("enqueue", window * WINDOW_US + at, queue="q", priority=0)
        # Two are served at last, of fifty; but in the end all are.
        yield from (event("deliver", 6 * WINDOW_US + at, queue="q", priority=0, wait_us=5) for at in range(2))
        yield from (event("deliver", 7 * WINDOW_US + at, queue="q", priority=0, wait_us=5) for at in range(48))
        yield from passing(3, 5, queue="alone", priority=0)

    by_priority = summarise(sums(count(made()).cells), starvation.KEYS, WINDOW_US)
    found = starvation.starvation(by_priority, WINDOW_US, patience=3).collect()
    assert {row.queue for row in found} == {"q"}, "one priority alone has nobody to envy"
    low = {window_of(row): row for row in found if row.priority == 0}
    assert [low[at].is_starving for at in range(8)] == [False, False, True, True, True, True, True, False]
    assert [low[at].hungry_windows for at in range(8)] == [1, 2, 3, 4, 5, 6, 7, 0]
    assert [low[at].backlog for at in range(8)] == [0, 10, 20, 30, 40, 50, 50, 48]
    assert not any(row.is_hungry for row in found if row.priority == 9)


def test_all_priorities_slow_alike_is_no_starvation(count: Count) -> None:
    """Consumers are too few: nobody is favoured."""

    def made() -> Iterator[Event]:
        for window in range(5):
            for priority in (0, 9):
                for at in range(10):
                    yield event("enqueue", window * WINDOW_US + at, queue="q", priority=priority)
                yield event("deliver", window * WINDOW_US + 99, queue="q", priority=priority, wait_us=5)

    by_priority = summarise(sums(count(made()).cells), starvation.KEYS, WINDOW_US)
    assert not [row for row in starvation.starvation(by_priority, WINDOW_US).collect() if row.is_hungry]


def test_windows_unlike_those_before_stand_out(count: Count) -> None:
    """Wait and dead letters jump once; the mean of what follows would not notice the second jump, the median does."""
    waits = [1000 + 10 * (window % 3) for window in range(30)]
    waits[20] = 500_000
    waits[22] = 400_000

    def made() -> Iterator[Event]:
        for window, wait_us in enumerate(waits):
            yield from passing(window, 30, wait_us=wait_us, queue="q")
            yield from passing(window, 30 if window < 28 else 0, queue="silent")
            if window == 25:
                for at in range(15):
                    yield event("dead_letter", window * WINDOW_US + at, queue="q", reason="rejected")

    by_queue = summarise(sums(count(made()).cells), PLACE, WINDOW_US)
    found = anomalies.anomalies(by_queue, WINDOW_US).collect()
    stand_out = {(row.queue, row.signal, window_of(row)): row for row in found}
    assert stand_out.keys() == {
        ("q", "wait_p95", 20),
        ("q", "wait_p95", 22),
        ("q", "dead_letter_rate", 25),
        ("silent", "throughput_drop", 28),  # and not 29, the last window, which may not be over
    }
    jump = stand_out["q", "wait_p95", 20]
    assert jump.severity == "critical"
    assert jump.median == pytest.approx(1000, rel=0.1)
    assert jump.score == pytest.approx(0.6745 * (jump.value - jump.median) / anomalies.SIGNALS[1].least)


def test_a_score_is_the_deviation_in_medians_of_deviations(count: Count) -> None:
    sizes = [40, 44, 38, 47, 41, 39, 45, 43, 40, 46, 42, 3, 42]

    def made() -> Iterator[Event]:
        for window, size in enumerate(sizes):
            yield from passing(window, size, queue="q")

    by_queue = summarise(sums(count(made()).cells), PLACE, WINDOW_US)
    (row,) = (row for row in anomalies.anomalies(by_queue, WINDOW_US).collect() if row.signal == "throughput_drop")
    rates = [size / 10 for size in sizes[:-2]]
    middle = median(rates)
    mad = median(abs(rate - middle) for rate in rates)
    assert (row.median, row.mad) == (pytest.approx(middle), pytest.approx(mad))
    assert row.score == pytest.approx(0.6745 * (middle - 0.3) / max(mad, 0.5, middle * 0.05))


def test_too_little_history_says_nothing(count: Count) -> None:
    made = [*passing(0, 5, queue="q"), *passing(3, 5, wait_us=10**9, queue="q")]
    assert anomalies.anomalies(summarise(sums(count(iter(made)).cells), PLACE, WINDOW_US), WINDOW_US).collect() == []


def returning(queue: str, number: int, times: int, ends: str | None, **columns: Any) -> Iterator[Event]:
    what = {"queue": queue, "msg_seq": number, "message_id": f"{queue}-{number}"}
    for at in range(times):
        yield event("deliver", number * 100 + at, delivery_count=at, consumer_tag="c", **what)
        yield event("nack", number * 100 + at, delivery_count=at, **what)
        yield event("requeue", number * 100 + at, delivery_count=at + 1, **what)
    if ends:
        yield event(ends, number * 100 + times, delivery_count=times, **what, **columns)


def test_messages_that_come_back_are_named_worst_first(count: Count) -> None:
    def made() -> Iterator[Event]:
        yield from returning("q", 1, 2, "ack")  # not often enough
        yield from returning("q", 2, 6, "dead_letter", reason="delivery_limit")
        yield from returning("q", 3, 4, "ack")
        yield from returning("q", 4, 9, None)
        yield from returning("q", 5, 3, "expire", reason="expired")
        yield from returning("other", 1, 3, None)

    suspects = count(made()).suspects
    found = sorted(poison.poison(suspects, top=3).collect(), key=lambda row: (row.queue, row["rank"]))
    assert [(row.queue, row.message_id, row.delivery_count, row.fate, row.reason) for row in found] == [
        ("other", "other-1", 3, "circulating", None),
        ("q", "q-4", 9, "circulating", None),
        ("q", "q-2", 6, "dead-lettered", "delivery_limit"),
        ("q", "q-3", 4, "acked", None),
    ]


def test_consumers_that_get_more_than_others(count: Count) -> None:
    def made() -> Iterator[Event]:
        for tag, number in (("a", 30), ("b", 3), ("c", 3)):
            for at in range(number):
                yield event("deliver", at, queue="q", consumer_tag=tag)

    (row,) = poison.skew(count(made()).consumers).collect()
    assert (row.consumers, row.most, row.median, row.busiest, row["skew"]) == (3, 30, 3, "a", 10)

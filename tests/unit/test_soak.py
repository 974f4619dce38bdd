"""The soak: which limits it holds a run to, and how its samples become charts."""

from array import array
from xml.etree import ElementTree

import pytest

from benchmarks.soak import charts, verdict
from benchmarks.soak.client import Times
from benchmarks.soak.control import Control
from benchmarks.soak.verdict import MB, End
from benchmarks.soak.watch import Sample

QUIET = Times(array("d", [0.5, 1.5]), array("d", [1.0, 2.0]), lost=0)
END = End(start_rss_bytes=50 * MB, rss_bytes=80 * MB, alarms=0, errors=(), warnings=(), is_alive=True)


def sample(at_s: float, rss_mb: float = 100) -> Sample:
    return Sample(at_s, rss_mb * MB, wal_bytes=0, data_bytes=0, cpu_s=at_s, published=int(at_s) * 1000)


def exceeded(
    *, times: Times = QUIET, durable: Times = QUIET, end: End = END, rss_mb: float = 100, limit_mb: float = 400
) -> list[str]:
    samples = [sample(0), sample(1, rss_mb), sample(2)]
    lines = verdict.lines(samples, times, durable, Control([0.1, 0.2], 0.25), end, limit_mb * MB)
    return [line.what.strip() for line in lines if not line.is_kept]


def test_a_quiet_run_keeps_every_limit() -> None:
    assert exceeded() == []


@pytest.mark.parametrize(
    ("took_ms", "broken"),
    [
        ([1.0] * 98 + [25.0, 25.0], ["p99"]),
        ([1.0] * 999 + [101.0], ["max"]),
        ([], ["p99", "max"]),
    ],
)
def test_the_well_behaved_client_is_held_to_its_times(took_ms: list[float], broken: list[str]) -> None:
    times = Times(array("d", range(len(took_ms))), array("d", took_ms), lost=0)
    assert exceeded(times=times) == broken
    assert exceeded(durable=times) == [], "the disk's times are reported, not judged"


def test_a_lost_message_fails_whoever_lost_it() -> None:
    lost = Times(QUIET.at_s, QUIET.took_ms, lost=1)
    assert exceeded(times=lost) == exceeded(durable=lost) == ["confirmed messages lost"]
    failed = Times(array("d"), array("d"), 0, "no progress for 120 s")
    assert exceeded(durable=failed) == ["failed"]


def test_memory_is_limited_during_the_run_and_after_it() -> None:
    assert exceeded(rss_mb=401) == ["broker's memory, largest"]
    assert exceeded(rss_mb=401, limit_mb=1000) == []
    kept = End(50 * MB, 201 * MB, 0, (), (), is_alive=True)
    assert exceeded(end=kept) == ["broker's memory, before → after"]


def test_alarms_errors_and_a_broker_that_ended_fail() -> None:
    end = End(50 * MB, 0, alarms=1, errors=["[ERROR] x"], warnings=["[WARNING] y"], is_alive=False)
    assert exceeded(end=end) == ["alarms at the end", "errors in the log", "broker"]


def test_each_second_has_the_times_of_its_messages() -> None:
    samples = [sample(1), sample(2), sample(3)]
    times = Times(array("d", [10.2, 10.4, 11.5, 13.5]), array("d", [1.0, 3.0, 7.0, 9.0]), lost=0)
    verdict.spread_over(samples, 10.0, times, QUIET)
    assert [each.max_ms for each in samples] == [3.0, 7.0, 9.0]
    assert [each.p50_ms for each in samples] == [1.0, 7.0, 9.0]


def test_charts_have_a_line_for_each_series_within_their_frame() -> None:
    names = ("rss_bytes", "wal_bytes", "data_bytes", "published", "delivered", "backlog", "p50_ms", "p99_ms", "max_ms")
    rows = [{"at_s": float(at), **dict.fromkeys(names, at**3 * 10000.0)} for at in range(1, 601)]
    document = {"samples": rows, "rss_limit_bytes": 400e6}
    drawn = {
        chart.name: (chart, charts.draw(chart, [row["at_s"] for row in rows])) for chart in charts.charts(document)
    }
    assert set(drawn) == {"soak-memory", "soak-latency", "soak-rates", "soak-backlog", "soak-disk"}
    for chart, text in drawn.values():
        lines = ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}polyline")
        assert len(lines) == len(chart.series)
        for line in lines:
            points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
            assert len(points) == len(rows)
            assert all(0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT for x, y in points)

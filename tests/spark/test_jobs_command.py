"""The command `rabbitlike-pipeline` where there is nothing to run on or nothing to run over. Starts no JVM."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rabbitlike.spark.jobs import durations, inputs
from rabbitlike.spark.jobs.errors import shortened
from rabbitlike.spark.jobs.report.findings import findings
from tests.support import made_events
from tests.support.broker_process import environment


def pipeline(*words: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rabbitlike.spark.jobs.run", *words],
        cwd=folder,
        env=environment(COLUMNS="200", **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def one_event(folder: Path) -> Path:
    return made_events.write(folder, made_events.numbered([made_events.event("publish", 0)]))


def test_help_needs_neither_spark_nor_java(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise AssertionError('imported')")
    said = pipeline("--help", folder=tmp_path, PATH="", JAVA_HOME="/nowhere")
    assert said.returncode == 0, said.stderr
    for option in ("--input", "--output", "--amqp-uri", "--mode", "--window", "--report", "--guarantee"):
        assert option in said.stdout


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_no_events_says_how_to_get_some(tmp_path: Path, mode: str) -> None:
    said = pipeline("--mode", mode, "--output", "out", folder=tmp_path)
    assert said.returncode == 2
    assert "There is no folder data/events" in said.stderr
    assert "--event-log" in said.stderr
    assert "Traceback" not in said.stderr


def test_an_empty_folder_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "data" / "events").mkdir(parents=True)
    (tmp_path / "data" / "events" / ".tmp-ev-1.parquet").touch()
    said = pipeline(folder=tmp_path)
    assert said.returncode == 2
    assert "no files of events in data/events" in said.stderr


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    one_event(tmp_path / "data" / "events")
    said = pipeline(folder=tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert said.returncode == 2
    assert "Spark needs Java" in said.stderr
    assert "openjdk-17-jre-headless" in said.stderr


def test_no_spark_says_what_to_install(tmp_path: Path) -> None:
    one_event(tmp_path / "data" / "events")
    hide = (
        "import sys; sys.modules['pyspark'] = None; sys.argv = ['p']; from rabbitlike.spark.jobs.run import cli; cli()"
    )
    said = subprocess.run(
        [sys.executable, "-c", hide], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert said.returncode == 2
    assert "pip install 'rabbitlike[spark]'" in said.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--window", "soon"), "'soon' is no length of time such as 500ms"),
        (("--window", "0s"), "is no length of time"),
        (("--since", "yesterday"), "'yesterday' is neither a time"),
        (("--mode", "stream"), "A stream needs --output, or --checkpoint"),
        (("--mode", "sometimes"), "sometimes"),
        (("--guarantee", "twice"), "exactly-once"),
        (("--since", "1999-01-01", "--until", "1999-01-02"), "is of that time"),
    ],
)
def test_arguments_that_cannot_be_are_refused(tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    """Without Java, too: what was asked is checked before what it takes to do it."""
    one_event(tmp_path / "data" / "events")
    said = pipeline(*words, folder=tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert said.returncode == 2
    assert text in said.stderr
    assert "Traceback" not in said.stderr


def test_lengths_of_time() -> None:
    assert [durations.parse_us(text) for text in ("500ms", "30s", "1.5m", "2 h", "1D")] == [
        500_000, 30_000_000, 90_000_000, 7_200_000_000, 86_400_000_000,
    ]  # fmt: skip
    now = datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert durations.parse_moment("2h", now) == datetime(2026, 11, 16, 10, tzinfo=UTC)
    assert durations.parse_moment("2026-11-16T14:00", now) == datetime(2026, 11, 16, 14, tzinfo=UTC)
    assert durations.parse_moment("2026-11-16T14:00+02:00", now) == datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert [durations.shown(us) for us in (None, 0, 850, 1200, 3_400_000, 600_000_000)] == [
        "–", "< 1 ms", "850 µs", "1.2 ms", "3.4 s", "10 min",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "window_s"), [(30, 1), (119, 1), (600, 5), (3600, 30), (86_400, 900), (10**6, 3600)]
)
def test_windows_fit_the_time_events_span(tmp_path: Path, seconds: int, window_s: int) -> None:
    made = [made_events.event("publish", at) for at in (0, seconds * 1_000_000)]
    made_events.write(tmp_path, made_events.numbered(made), files=2)
    assert inputs.fitting_window_s(inputs.find(str(tmp_path))) == window_s


def test_files_outside_the_time_asked_for_are_not_read(tmp_path: Path) -> None:
    hour_us = 3_600_000_000
    for hour in range(4):
        made_events.write(tmp_path, made_events.numbered([made_events.event("publish", hour * hour_us)]))
    found = inputs.find(
        str(tmp_path), datetime(2026, 11, 16, 13, 30, tzinfo=UTC), datetime(2026, 11, 16, 15, tzinfo=UTC)
    )
    assert [file.parent.name for file in found.files or ()] == ["hour=13", "hour=14"]


def test_the_line_of_a_failure_that_matters() -> None:
    error = RuntimeError(
        "[PYTHON_DATA_SOURCE_ERROR] Failed when something\nTraceback (most recent call last):\n  File x\n"
        "rabbitlike.spark.wire.Lost: nobody answers at 127.0.0.1:1: connection refused\n\n\tat org.apache.spark"
    )
    assert shortened(error) == "nobody answers at 127.0.0.1:1: connection refused"
    assert shortened(RuntimeError("[PATH_NOT_FOUND] no such path\nmore")) == "[PATH_NOT_FOUND] no such path"
    assert shortened(RuntimeError()) == "RuntimeError"


def test_windows_in_a_row_are_one_finding() -> None:
    window_us = 10_000_000
    odd = [
        {"name": "q", "signal": "wait_p95", "window_us": at * window_us, "severity": severity, "score": score,
         "value": score * 1e6, "median": 1000.0}
        for at, severity, score in ((1, "warning", 4.0), (2, "critical", 12.0), (5, "warning", 5.0))
    ]  # fmt: skip
    hungry = [
        {"name": "q", "priority": 0, "window_us": at * window_us, "share": 0.1, "higher_share": 1.0, "backlog": 7,
         "hungry_windows": at}
        for at in (3, 4)
    ]  # fmt: skip
    found = findings(hungry, odd, [], [], [{"vhost": "/", "unroutable": 3, "published": 60}], window_us)
    assert [(each.kind, each.severity) for each in found] == [
        ("starvation", "critical"),
        ("anomaly", "critical"),
        ("anomaly", "warning"),
        ("publishing", "warning"),
    ]
    assert found[0].text.startswith("priority 0 starved for 40 s: 10% of what waited was delivered")
    assert found[1].text == "p95 of waits was 12 s, usually 1 ms, for 20 s"
    assert found[3].text == "3 of 60 published messages (5.0%) found no queue"

"""Benchmarks: what only rabbitlike has is held against rabbitlike without it, in turn."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import brokers, report, runner
from benchmarks.brokers import Kind, Launch, Place, Running
from benchmarks.runner import BASELINE, OURS, SINK, WITHOUT
from benchmarks.scenarios import durable, latency
from benchmarks.scenarios.scenario import TIMES_FDATASYNC, Sample, Scenario, Unit

PLAN = runner.Plan(repeat=3, retake=0, seconds=0.1)


@pytest.mark.parametrize(("rate", "met"), [(60.0, True), (59.0, False)])
def test_with_and_without_take_turns_on_brokers_of_their_own(rate: float, met: bool) -> None:
    places: dict[int, Place] = {}
    seen: list[tuple[str, Place]] = []

    @contextmanager
    def prepare(folder: Path, place: Place) -> Iterator[Launch]:
        with brokers.sink().prepare(folder, place) as launch:
            places[launch.address.port] = place
            yield launch

    def run(broker: Running, seconds: float) -> Sample:
        place = places[broker.address.port]
        seen.append((broker.name, place))
        speed = (1.0, 1.0, 0.1, 0.1, 0.9, 0.5)[len(seen) - 1]  # what others leave of the machine
        return Sample(speed * (rate if place is Place.TRACED else 80.0))

    kinds = [Kind(OURS, "canned", prepare), Kind(BASELINE, "canned", prepare)]
    scenario = Scenario(
        "log", "with a log", Unit.RATE, run, bar=0.75, place=Place.TRACED, is_ours=True, against=Place.DISK
    )
    (outcome,) = runner.run(kinds, [scenario], PLAN, say=lambda line: None)
    assert seen == [(OURS, Place.TRACED), (WITHOUT, Place.DISK)] * 3
    assert len(places) == 2  # nobody was started again in between
    assert outcome.ratio() == pytest.approx(rate / 80), "of two that were taken next to each other"
    assert outcome.is_met() is met

    console = Console(width=160, file=io.StringIO(), record=True)
    report.print_table(console, [outcome], [OURS], {OURS: "canned"})
    shown = console.export_text()
    assert "40.0 /s without" in shown
    assert "≥ 0.75×" in shown


def test_the_sink_shows_what_a_round_trip_takes_without_a_broker() -> None:
    """It hands messages on as they are: the word to stop reaches the responder, and stamps are those that were sent."""
    chosen = [entry for entry in latency.SCENARIOS if entry.name in ("round-trip", "paced")]
    outcomes = list(runner.run([brokers.sink()], chosen, replace(PLAN, seconds=0.3), say=lambda line: None))
    assert len(outcomes) == 2
    for outcome in outcomes:
        figure = outcome.figures[SINK]
        assert not figure.failures
        middle = figure.median()
        assert middle is not None
        assert 0 < middle.details["p50_us"] < 200_000, "a stamp sent again and again would grow old"


def test_the_sink_is_not_asked_for_what_it_cannot_do() -> None:
    durable = Scenario("durable", "kept", Unit.RATE, lambda broker, seconds: Sample(1.0), place=Place.DISK)
    assert runner.side(durable, SINK) is None
    assert runner.side(durable, OURS) is durable


def test_a_confirm_is_held_against_a_bare_fdatasync() -> None:
    """Measured in the same sample, and shown beside it."""
    (scenario,) = [entry for entry in durable.SCENARIOS if entry.name == "confirm-latency"]
    kind = brokers.rabbitlike()
    (outcome,) = runner.run([kind], [scenario], replace(PLAN, repeat=1, seconds=0.3), say=lambda line: None)
    assert not outcome.figures[OURS].failures
    middle = outcome.figures[OURS].median()
    assert middle is not None
    assert middle.details["fdatasync_p50_us"] > 0
    assert middle.details[TIMES_FDATASYNC] == pytest.approx(middle.value / middle.details["fdatasync_p50_us"])
    console = Console(width=160, file=io.StringIO(), record=True)
    report.print_table(console, [outcome], [OURS], {OURS: kind.version})
    assert "× fdatasync" in console.export_text()

"""The results for people (a table) and for programs (JSON)."""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.runner import BASELINE, DISTURBED, OURS, SINK, WITHOUT, Figure, Outcome
from benchmarks.scenarios.scenario import TIMES_FDATASYNC, Sample, Unit

RESULTS = Path(__file__).resolve().parent / "results"
NAMES = {OURS: "rabbitlike", WITHOUT: "rabbitlike without it", BASELINE: "RabbitMQ", SINK: "generator alone"}


def scaled(value: float, steps: Sequence[tuple[float, str]]) -> str:
    """Format with three significant digits, in the largest unit that the value reaches."""
    factor, name = next(((factor, name) for factor, name in steps if abs(value) >= factor), steps[-1])
    value /= factor
    digits = max(0, 2 - int(math.log10(abs(value)))) if abs(value) >= 1 else 2
    return f"{value:,.{digits}f}{name}"


RATES = ((1e6, " M/s"), (1e3, " k/s"), (1.0, " /s"))
TIMES_US = ((1e6, " s"), (1e3, " ms"), (1.0, " µs"))
SIZES = ((2.0**30, " GB"), (2.0**20, " MB"), (2.0**10, " KB"), (1.0, " B"))


def shown(sample: Sample, unit: Unit) -> str:
    match unit:
        case Unit.RATE:
            return scaled(sample.value, RATES)
        case Unit.LATENCY:
            both = " / ".join(scaled(sample.details[name], TIMES_US) for name in ("p50_us", "p99_us"))
            times = sample.details.get(TIMES_FDATASYNC)
            return both if times is None else f"{both}\n{times:.2f}× fdatasync"
        case Unit.BYTES:
            return scaled(sample.value, SIZES)
        case Unit.SECONDS:
            return scaled(sample.value * 1e6, TIMES_US)


def print_table(
    console: Console, outcomes: Sequence[Outcome], brokers: Sequence[str], versions: dict[str, str]
) -> None:
    table = Table(title="Median figures; ratio is rabbitlike ÷ RabbitMQ, or ÷ rabbitlike without", title_justify="left")
    table.add_column("scenario")
    table.add_column("what")
    table.add_column("messages")
    for name in brokers:
        table.add_column(f"{NAMES[name]}\n{versions[name]}", justify="right")
        table.add_column("±", justify="right", style="dim")
    table.add_column("µs CPU each\nbroker + generator", justify="right", style="dim")
    has_backlogs = any(_backlog(figure.median()) for outcome in outcomes for figure in outcome.figures.values())
    if has_backlogs:
        table.add_column("backlog, RSS\nat the end", justify="right", style="dim")
    is_comparing = any(outcome.ratio() is not None for outcome in outcomes)
    if is_comparing:
        for heading in ("ratio", "bar", "met"):
            table.add_column(heading, justify="right")
    for outcome in outcomes:
        row = [outcome.scenario.name, outcome.scenario.title, outcome.scenario.messages.value]
        for name in brokers:
            row += _cells(outcome, name)
        medians = [figure.median() for figure in outcome.figures.values()]
        row.append("\n".join(filter(None, map(_cost, medians))))
        if has_backlogs:
            row.append("\n".join(filter(None, map(_backlog, medians))))
        if is_comparing:
            row += _verdict(outcome)
        table.add_row(*row)
    console.print(table)
    _print_remarks(console, outcomes)


def _print_remarks(console: Console, outcomes: Sequence[Outcome]) -> None:
    disturbed = max((figure.others() for outcome in outcomes for figure in outcome.figures.values()), default=0.0)
    if disturbed > DISTURBED:
        console.print(f"Other programs took up to {disturbed:.0%} of the machine meanwhile: trust no figure here much.")
    for outcome in outcomes:
        for name, figure in outcome.figures.items():
            for failure in figure.failures:
                console.print(f"{outcome.scenario.name} on {NAMES[name]} failed: {failure}", style="red", markup=False)


def _cells(outcome: Outcome, broker: str) -> tuple[str, str]:
    """Return a broker's figure and spread; below ours, those of the variant without the feature."""
    names = (OURS, WITHOUT) if broker == OURS else (broker,)
    figures = {name: outcome.figures[name] for name in names if name in outcome.figures}
    mark = {WITHOUT: " without"}
    shares = [f"{figure.spread():.0%}" if len(figure.samples) > 1 else "" for figure in figures.values()]
    values = [_value(figure, outcome.scenario.unit) + mark.get(name, "") for name, figure in figures.items()]
    return "\n".join(values), "\n".join(shares)


def _value(figure: Figure, unit: Unit) -> str:
    sample = figure.median()
    return "failed" if sample is None else shown(sample, unit)


def _cost(sample: Sample | None) -> str:
    """Return CPU time per delivery or per create and delete; the generator's must be much smaller than the broker's."""
    if sample is None:
        return ""
    for what in ("per_delivery", "each"):
        if f"broker_cpu_us_{what}" in sample.details:
            broker, own = (sample.details[f"{who}_cpu_us_{what}"] for who in ("broker", "generator"))
            return f"{broker:,.2f} + {own:,.2f}"
    return ""


def _backlog(sample: Sample | None) -> str:
    """Return the backlog of an open loop (messages accepted and not delivered) and the maximum memory."""
    if sample is None or "backlog" not in sample.details:
        return ""
    return f"{sample.details['backlog']:,.0f}, {scaled(sample.details['rss_bytes'], SIZES)}"


def _verdict(outcome: Outcome) -> tuple[str, str, str]:
    ratio, met = outcome.ratio(), outcome.is_met()
    sign = "≥" if outcome.scenario.unit.more_is_better else "≤"
    bars = [] if outcome.bar is None else [f"{sign} {outcome.bar:g}×"]
    if outcome.scenario.limit is not None:
        bars.append(f"≤ {shown(Sample(outcome.scenario.limit), outcome.scenario.unit)}")
    return (
        "" if ratio is None else f"{ratio:.2f}×",
        "\n".join(bars),
        "" if met is None else "[green]yes[/]" if met else "[red]no[/]",
    )


def as_json(outcomes: Sequence[Outcome], versions: dict[str, str], facts: dict[str, str | int | float]) -> str:
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": facts,
        "brokers": versions,
        "scenarios": [
            {
                "name": outcome.scenario.name,
                "title": outcome.scenario.title,
                "messages": outcome.scenario.messages.value,
                "unit": outcome.scenario.unit.value,
                "ratio": outcome.ratio(),
                "bar": outcome.bar,
                "limit": outcome.scenario.limit,
                "met": outcome.is_met(),
                "figures": {name: _plain(figure) for name, figure in outcome.figures.items()},
            }
            for outcome in outcomes
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _plain(figure: Figure) -> dict[str, object]:
    middle = figure.median()
    return {
        "median": middle.value if middle else None,
        "samples": [{"value": sample.value, **sample.details} for sample in figure.samples],
        "failures": figure.failures,
    }

"""Charts of a soak as SVG, from its samples.

    python -m benchmarks.soak.charts FILE [FOLDER]     # FOLDER: docs/images by default

Each chart is one file without scripts or embedded fonts; its colours follow the reader's light or dark theme.
"""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.bystander import P99_LIMIT_MS

WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 28
FOLDER = Path("docs/images")
COLOURS = ("a", "b", "c")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a } .title { font-weight: 600; fill: #24292f }
.grid { stroke: #d0d7de; stroke-width: 1 } .line { fill: none; stroke-width: 1.5; stroke-linejoin: round }
.a { stroke: #0969da } .b { stroke: #bc4c00 } .c { stroke: #1a7f37 } .limit { stroke: #cf222e; stroke-dasharray: 5 4 }
text.a, text.b, text.c, text.limit { stroke: none } text.a { fill: #0969da } text.b { fill: #bc4c00 }
text.c { fill: #1a7f37 } text.limit { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #8b949e } .title { fill: #e6edf3 } .grid { stroke: #30363d }
.a { stroke: #58a6ff } .b { stroke: #f0883e } .c { stroke: #3fb950 } .limit { stroke: #ff7b72 }
text.a { fill: #58a6ff } text.b { fill: #f0883e } text.c { fill: #3fb950 } text.limit { fill: #ff7b72 } }
"""

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    name: str  # of the file
    title: str
    unit: str
    series: Sequence[Series]
    limit: float | None = None
    limited: str = ""  # what the limit applies to
    is_log: bool = False


def charts(document: dict[str, Any]) -> list[Chart]:
    rows: list[Row] = document["samples"]
    return [
        Chart(
            "soak-memory",
            "Memory of the broker",
            "MB",
            [_series("resident memory", rows, "rss_bytes", 1e6)],
            limit=document["rss_limit_bytes"] / 1e6,
        ),
        Chart(
            "soak-latency",
            "Well-behaved client: publish, confirm and get, each second",
            "ms",
            [_series(name, rows, f"{name}_ms") for name in ("p50", "p99", "max")],
            limit=P99_LIMIT_MS,
            limited=" of p99",
            is_log=True,
        ),
        Chart(
            "soak-rates", "Messages per second", "", [_rate("in", rows, "published"), _rate("out", rows, "delivered")]
        ),
        Chart("soak-backlog", "Messages in queues", "", [_series("backlog", rows, "backlog")]),
        Chart(
            "soak-disk",
            "Disk",
            "MB",
            [_series("write-ahead log", rows, "wal_bytes", 1e6), _series("data folder", rows, "data_bytes", 1e6)],
        ),
    ]


def _series(name: str, rows: Sequence[Row], key: str, unit: float = 1.0) -> Series:
    return Series(name, [row[key] / unit for row in rows])


def _rate(name: str, rows: Sequence[Row], key: str) -> Series:
    steps = [
        max(0.0, (after[key] - before[key]) / max(1e-9, after["at_s"] - before["at_s"]))
        for before, after in itertools.pairwise(rows)
    ]
    return Series(name, [*steps[:1], *steps])


def draw(chart: Chart, at_s: Sequence[float]) -> str:
    """Draw one chart over the time of the samples."""
    highest = max([value for series in chart.series for value in series.values] + [chart.limit or 0.0, 1e-9])
    ticks = _log_ticks(highest) if chart.is_log else _ticks(highest)
    top, end = ticks[-1], max(at_s[-1], 1e-9)
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(at: float) -> float:
        return LEFT + across * at / end

    def y(value: float) -> float:
        if chart.is_log:
            lowest = math.log10(ticks[0])
            share = (math.log10(max(value, ticks[0])) - lowest) / (math.log10(top) - lowest)
        else:
            share = value / top
        return TOP + down * (1 - share)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(chart.title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="18">{escape(chart.title)}</text>',
    ]
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        label = f"{_short(tick)} {chart.unit}".strip()
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{label}</text>')
    parts += [
        f'<text x="{x(minute * 60):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{minute:g} min</text>'
        for minute in _minutes(end)
    ]
    for colour, series in zip(COLOURS, chart.series, strict=False):
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(at_s, series.values, strict=True))
        parts.append(f'<polyline class="line {colour}" points="{points}"/>')
    if chart.limit is not None:
        parts.append(f'<path class="line limit" d="M{LEFT} {y(chart.limit):.1f}H{WIDTH - RIGHT}"/>')
    return "\n".join([*parts, *_legend(chart), "</svg>"]) + "\n"


def _legend(chart: Chart) -> list[str]:
    names = [(series.name, colour) for colour, series in zip(COLOURS, chart.series, strict=False)]
    if chart.limit is not None:
        names.append((f"limit{chart.limited}: {chart.limit:g} {chart.unit}", "limit"))
    parts, at = [], WIDTH - RIGHT
    for name, colour in reversed(names):
        parts.append(f'<text class="{colour}" x="{at}" y="18" text-anchor="end">{escape(name)}</text>')
        at -= 7 * len(name) + 14
    return parts


def _ticks(highest: float) -> list[float]:
    """Return 0 and up to five round steps that reach the highest value."""
    step = 10 ** math.floor(math.log10(highest / 4)) if highest > 0 else 1.0
    step *= next(factor for factor in (1, 2, 5, 10) if highest / (step * factor) <= 5)
    return [step * number for number in range(math.ceil(highest / step) + 1)]


def _log_ticks(highest: float) -> list[float]:
    return [10.0**power for power in range(-1, max(2, math.ceil(math.log10(highest))) + 1)]


def _minutes(end_s: float) -> list[float]:
    minutes = end_s / 60
    step = next((each for each in (0.25, 0.5, 1, 2, 5, 10, 30) if minutes / each <= 12), 60)
    return [step * number for number in range(int(minutes / step) + 1)]


def _short(value: float) -> str:
    for factor, name in ((1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:g}{name}"
    return f"{value:g}"


def main(
    file: Annotated[Path, typer.Argument(help="What `make soak ARGS=--json FILE` wrote.")],
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = FOLDER,
) -> None:
    """Draw the samples of a soak."""
    document = json.loads(file.read_text())
    at_s = [row["at_s"] for row in document["samples"]]
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts(document):
        target = folder / f"{chart.name}.svg"
        target.write_text(draw(chart, at_s))
        print(target)


if __name__ == "__main__":
    typer.run(main)

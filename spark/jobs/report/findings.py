"""Findings worth a look, each as one sentence; consecutive windows make one finding."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rabbitlike.spark.jobs.durations import shown

Rows = Sequence[dict[str, Any]]
#: A consumer is lopsided above this multiple of the median consumer's share.
LOPSIDED: Final = 5.0
_ORDER: Final = {"critical": 0, "warning": 1}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `kind` is the metric behind it."""

    kind: str
    severity: str
    queue: str
    text: str
    #: Start and end; 0 for the whole time.
    from_us: int = 0
    to_us: int = 0


def findings(starving: Rows, odd: Rows, poison: Rows, skewed: Rows, exchanges: Rows, window_us: int) -> list[Finding]:
    """Return findings, the worst first."""
    found = [
        *_starvation(starving, window_us),
        *_poison(poison),
        *_anomalies(odd, window_us),
        *_unroutable(exchanges),
        *_skew(skewed),
    ]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


def _runs(rows: Rows, window_us: int) -> Iterator[list[dict[str, Any]]]:
    """Group rows of consecutive windows."""
    run: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: row["window_us"]):
        if run and row["window_us"] != run[-1]["window_us"] + window_us:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _starvation(rows: Rows, window_us: int) -> Iterator[Finding]:
    lanes = defaultdict(list)
    for row in rows:
        lanes[row["name"], row["priority"]].append(row)
    for (name, priority), lane in lanes.items():
        for run in _runs(lane, window_us):
            last = run[-1]
            hungry_us = last["hungry_windows"] * window_us
            text = (
                f"priority {priority} starved for {shown(hungry_us)}: {last['share'] or 0:.0%} of what waited was "
                f"delivered, of a higher one {last['higher_share'] or 0:.0%}; {last['backlog']:,} waited"
            )
            yield Finding("starvation", "critical", name, text, run[0]["window_us"], last["window_us"] + window_us)


_SAYINGS: Final = {
    "backlog_growth": "backlog grew by {value:,.0f} in a window, usually {median:,.0f}",
    "wait_p95": "p95 of waits was {value_time}, usually {median_time}",
    "redelivery_rate": "{value:.0%} of deliveries were redeliveries, usually {median:.0%}",
    "dead_letter_rate": "{value:.0%} became dead letters, usually {median:.0%}",
    "throughput_drop": "deliveries fell to {value:,.1f}/s, usually {median:,.1f}/s",
}


def _anomalies(rows: Rows, window_us: int) -> Iterator[Finding]:
    signals = defaultdict(list)
    for row in rows:
        signals[row["name"], row["signal"]].append(row)
    for (name, signal), lane in signals.items():
        for run in _runs(lane, window_us):
            peak = max(run, key=lambda row: row["score"])
            saying = _SAYINGS[signal].format(**peak, value_time=shown(peak["value"]), median_time=shown(peak["median"]))
            lasted = f", for {shown(len(run) * window_us)}" if len(run) > 1 else ""
            ends = run[-1]["window_us"] + window_us
            yield Finding("anomaly", peak["severity"], name, saying + lasted, run[0]["window_us"], ends)


def _poison(rows: Rows) -> Iterator[Finding]:
    queues = defaultdict(list)
    for row in rows:
        queues[row["name"]].append(row)
    for name, messages in queues.items():
        worst = max(messages, key=lambda row: row["delivery_count"])
        count = f"{len(messages)} messages keep" if len(messages) > 1 else "a message keeps"
        which = worst["message_id"] or f"at position {worst['msg_seq']}"
        circling = any(row["fate"] == "circulating" for row in messages)
        text = f"{count} coming back; {which} did so {worst['delivery_count']} times and is {worst['fate']}"
        yield Finding("poison", "critical" if circling else "warning", name, text)


def _unroutable(rows: Rows) -> Iterator[Finding]:
    for row in rows:
        if row["unroutable"]:
            part = row["unroutable"] / max(1, row["published"])
            text = f"{row['unroutable']:,} of {row['published']:,} published messages ({part:.1%}) found no queue"
            yield Finding("publishing", "warning", f"vhost {row['vhost']}", text)


def _skew(rows: Rows) -> Iterator[Finding]:
    for row in rows:
        if row["skew"] >= LOPSIDED:
            text = (
                f"of {row['consumers']} consumers {row['busiest']} was given {row['most']:,} messages in a window, "
                f"the one in the middle {row['median']:,.0f}"
            )
            yield Finding("consumers", "warning", row["name"], text, row["window_us"])

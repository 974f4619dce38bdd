"""The report page: one self-contained HTML file that opens from disk.

The HTML contains numbers and tables; the script draws charts from the data embedded in the page.
"""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from rabbitlike.spark.jobs.durations import shown, shown_window
from rabbitlike.spark.jobs.histogram import percentile
from rabbitlike.spark.jobs.metrics import TIMES
from rabbitlike.spark.jobs.report.gather import Queue, Story

#: The most rows of a table.
MOST = 50


def write_page(story: Story, path: Path) -> None:
    """Write atomically, because a browser may read the page at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_text(page(story), encoding="utf-8")
    os.replace(unfinished, path)


def page(story: Story) -> str:
    """Return the HTML."""
    static = files(__package__) / "static"
    parts = {
        "title": escape(f"Queues of {story.job}" if story.job != "pipeline" else "What became of your messages"),
        "subtitle": escape(_subtitle(story)),
        "style": (static / "report.css").read_text("utf-8"),
        "script": (static / "report.js").read_text("utf-8"),
        "headline": "".join(_cards(story)),
        "findings": _findings(story),
        "queues": _queues(story),
        "poison": _poison(story),
        "consumers": _consumers(story),
        "made_at": f"{story.made_at:%Y-%m-%d %H:%M} UTC",
        "data": _json(story),
    }
    text = (static / "report.html").read_text("utf-8")
    for name, value in parts.items():
        text = text.replace("{{" + name + "}}", value, 1)
    return text


def _subtitle(story: Story) -> str:
    if not story.windows:
        return "no events"
    first, last = _moment(story.windows[0]), _moment(story.windows[-1] + story.window_us)
    day = f"{first:%Y-%m-%d %H:%M:%S} – {last:%H:%M:%S}"
    if first.date() != last.date():
        day = f"{first:%Y-%m-%d %H:%M} – {last:%Y-%m-%d %H:%M}"
    return f"{day} UTC · windows of {shown_window(story.window_us)} · {story.events:,} events · {story.place}"


def _moment(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC)


def _cards(story: Story) -> Iterator[str]:
    total = {
        name: sum(queue.totals[name] for queue in story.queues)
        for name in ("enqueued", "delivered", "acked", "redelivered", "dead_lettered", "bytes_out")
    }
    seconds = max(1.0, len(story.windows) * story.window_us / 1_000_000)
    waits, work = _overall(story.queues, "wait"), _overall(story.queues, "proc")
    critical = sum(finding.severity == "critical" for finding in story.findings)
    yield _card("Enqueued", f"{total['enqueued']:,}", f"{total['enqueued'] / seconds:,.1f} a second")
    yield _card("Delivered", f"{total['delivered']:,}", f"{_octets(total['bytes_out'])} in all")
    yield _card("Wait p99", shown(waits), "from queue to consumer")
    yield _card("Processing p99", shown(work), "from consumer to ack")
    again = total["redelivered"] / max(1, total["delivered"])
    yield _card("Redelivered", f"{again:.1%}", f"{total['redelivered']:,} deliveries", _tone(again, 0.02, 0.1))
    dead = total["dead_lettered"] / max(1, total["enqueued"])
    yield _card("Dead letters", f"{total['dead_lettered']:,}", f"{dead:.1%} of enqueued", _tone(dead, 0.001, 0.05))
    tone = "bad" if critical else "warn" if story.findings else "good"
    yield _card("Findings", str(len(story.findings)), f"{critical} critical" if critical else "none critical", tone)


def _tone(value: float, warn: float, bad: float) -> str:
    return "bad" if value >= bad else "warn" if value >= warn else ""


def _card(name: str, value: str, note: str, tone: str = "") -> str:
    return (
        f'<div class="card {tone}"><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>'
    )


def _overall(queues: Iterable[Queue], kind: str) -> int | None:
    """Return the p99 over all queues, from their histograms."""
    counts: dict[int, int] = {}
    longest = 0
    for queue in queues:
        longest = max(longest, queue.totals[f"{kind}_max_us"] or 0)
        for bucket, n in queue.totals[f"{kind}_histogram"].items():
            counts[bucket] = counts.get(bucket, 0) + n
    return percentile(counts, 0.99, longest)


def _octets(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _findings(story: Story) -> str:
    if not story.findings:
        return '<p class="calm">Nothing stands out: no starvation, no anomalies, no poison messages.</p>'
    lines = []
    for finding in story.findings[:MOST]:
        when = f"<time>{_moment(finding.from_us):%H:%M:%S}</time>" if finding.from_us else ""
        lines.append(
            f'<li class="{finding.severity}"><span class="badge">{escape(finding.severity)}</span>'
            f"<div><b>{escape(finding.queue)}</b> {escape(finding.text)}</div>{when}</li>"
        )
    more = len(story.findings) - MOST
    rest = f'<p class="note">and {more:,} more</p>' if more > 0 else ""
    return f'<ul class="findings">{"".join(lines)}</ul>{rest}'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], caption: str) -> str:
    """Build a table; column headings are aligned like the cells below them."""
    cells = [list(row) for row in rows]
    kinds = ['class="n" ' if cell.startswith('<td class="n"') else "" for cell in cells[0]] if cells else []
    names = "".join(f'<th {kind}scope="col">{escape(name)}</th>' for name, kind in zip(head, kinds, strict=False))
    lines = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{escape(caption)}</caption><thead><tr>{names}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _text(value: object) -> str:
    return f"<td>{escape(str(value))}</td>"


def _number(value: object) -> str:
    return f'<td class="n">{escape(str(value))}</td>'


def _queues(story: Story) -> str:
    head = (
        *("queue", "enqueued", "delivered", "acked", "redelivered", "expired", "dropped", "dead letters"),
        *(f"{name} {part}" for name in ("wait", "work") for part in ("p50", "p95", "p99", "max")),
    )

    def row(queue: Queue) -> Iterator[str]:
        totals = queue.totals
        yield f'<th scope="row">{escape(queue.name)}</th>'
        for name in ("enqueued", "delivered", "acked"):
            yield _number(f"{totals[name]:,}")
        yield _number(f"{totals['redelivery_rate']:.1%}")
        for name in ("expired", "dropped", "dead_lettered"):
            yield _number(f"{totals[name]:,}")
        for kind in ("wait", "proc"):
            for part in ("p50", "p95", "p99", "max"):
                yield _number(shown(totals[f"{kind}_{part}_us"]))

    return _table(head, map(row, story.queues[:MOST]), "Every queue over all windows, the busiest first")


def _poison(story: Story) -> str:
    if not story.poison:
        return '<p class="calm">No message came back often enough to be suspect.</p>'

    def row(each: dict[str, Any]) -> Iterator[str]:
        yield f'<th scope="row">{escape(each["name"])}</th>'
        yield _text(each["message_id"] or f"position {each['msg_seq']}")
        yield _number(f"{each['delivery_count']}×")
        fate = each["fate"] + (f", {each['reason']}" if each["reason"] else "")
        yield f'<td><span class="badge {each["fate"]}">{escape(fate)}</span></td>'
        yield _number(each["priority"])
        yield _number(_octets(each["size"]))
        yield _text(f"{each['first_ts']:%H:%M:%S} – {each['last_ts']:%H:%M:%S}")

    head = ("queue", "message", "returned", "what became of it", "priority", "size", "seen (UTC)")
    return _table(head, map(row, story.poison[:MOST]), "Messages that came back again and again")


def _consumers(story: Story) -> str:
    if not story.consumers:
        return ""

    def row(each: dict[str, Any]) -> Iterator[str]:
        yield f'<th scope="row">{escape(each["name"])}</th>'
        yield _text(each["consumer_group"] or "–")
        yield _number(each["consumers"])
        yield _number(f"{each['skew']:.1f}×")
        yield _text(each["busiest"])
        yield _number(f"{each['most']:,}")
        yield _number(f"{each['median']:,.0f}")

    head = ("queue", "group", "consumers", "skew", "busiest", "it was given", "the middle one")
    rows = sorted(story.consumers, key=lambda each: -each["skew"])[:MOST]
    table = _table(head, map(row, rows), "The least even window of each queue's consumers")
    return f'<section aria-labelledby="h-consumers"><h2 id="h-consumers">Consumers</h2>{table}</section>'


def _json(story: Story) -> str:
    """Return JSON for the script; escape anything that could end the script element."""
    windows = {window: at for at, window in enumerate(story.windows)}
    data = {
        "windowMs": story.window_us / 1000,
        "windows": [window // 1000 for window in story.windows],
        "queues": [
            {
                "name": queue.name,
                "series": {name: _rounded(line) for name, line in queue.series.items()},
                "priorities": [
                    {"priority": priority, **{name: _rounded(line) for name, line in lines.items()}}
                    for priority, lines in sorted(queue.priorities.items(), reverse=True)
                ],
                "dead": queue.totals["dead_letters"],
                "ended": queue.totals["expiries"],
                "totals": {
                    name: queue.totals[name]
                    for name in ("enqueued", "delivered", "redelivered", "redelivery_rate", "dead_lettered", "dropped")
                },
                "histograms": {kind: queue.totals[f"{kind}_histogram"] for kind in TIMES},
            }
            for queue in story.queues
        ],
        "anomalies": [
            {
                "at": windows[each["window_us"]],
                **{key: each[key] for key in ("name", "signal", "severity", "value", "median")},
            }
            for each in story.anomalies
        ],
        "starving": [
            {"at": windows[each["window_us"]], "name": each["name"], "priority": each["priority"]}
            for each in story.starving
        ],
    }
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rounded(line: list[float | None]) -> list[float | None]:
    return [each if each is None or isinstance(each, int) else float(f"{each:.5g}") for each in line]

"""The command line of the soak."""

import dataclasses
import json
import signal
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import brokers, machine, processes
from benchmarks.brokers import Kind, Launch, Place, Running
from benchmarks.bystander import EVERY_S
from benchmarks.children import forked
from benchmarks.client import Address, Client, Refused
from benchmarks.soak import client, control, loads, verdict
from benchmarks.soak.board import Board
from benchmarks.soak.watch import PERIOD_S, Sample, Told, Watch, ask, get

MINUTES = 10.0
START_LIMIT_S, STOP_LIMIT_S, SETTLE_S = 60.0, 90.0, 15.0
DURABLE_EVERY_S = 0.05
WIDTH = 120  # without a terminal
CALM_S = 3.0  # before the loads begin, so that the chart shows the well-behaved client without load


def main(
    minutes: Annotated[float, typer.Option(min=0.05, help="How long the loads run.")] = MINUTES,
    only: Annotated[list[str] | None, typer.Option(help=f"These loads alone: {', '.join(loads.LOADS)}.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Where to write the samples.")] = None,
    rss_limit: Annotated[
        float | None, typer.Option(metavar="MB", help="Most memory; 400 for floods alone, else 1000.")
    ] = None,
) -> None:
    """Load a broker from all sides at once, and see what a well-behaved client notices."""
    console, progress = Console(), Console(stderr=True)
    if not console.is_terminal:
        console.width = WIDTH
    chosen = {name: load for name, load in loads.LOADS.items() if not only or name in only}
    if only and len(chosen) != len(set(only)):
        progress.print(f"unknown load; there are: {', '.join(loads.LOADS)}")
        raise typer.Exit(2)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes.raise_file_limit()
    limit = rss_limit * verdict.MB if rss_limit else _rss_limit(list(chosen))
    soak = Soak(chosen, minutes * 60, progress)
    lines = soak.run(limit)
    console.print(_table(lines, soak))
    for line in soak.errors[:20]:
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if json_ is not None:
        json_.parent.mkdir(parents=True, exist_ok=True)
        json_.write_text(_as_json(soak, lines, limit))
        progress.print(f"written to {json_}", highlight=False, soft_wrap=True)
    if not all(line.is_kept for line in lines):
        raise typer.Exit(1)


def _rss_limit(chosen: list[str]) -> float:
    return verdict.FLOOD_RSS_BYTES if chosen == ["flood"] else verdict.MIX_RSS_BYTES


class Soak:
    """One run: the broker, the loads, the well-behaved clients, and the samples."""

    def __init__(self, chosen: dict[str, loads.Round], seconds: float, progress: Console) -> None:
        self.chosen = chosen
        self.board = Board(len(chosen))
        self.samples: list[Sample] = []
        self.errors: list[str] = []
        self._seconds = seconds
        self._progress = progress

    def run(self, rss_limit: float) -> list[verdict.Line]:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder, _kind().prepare(Path(folder), Place.DISK) as launch:
            broker = Running("rabbitlike", launch, Path(folder) / "output.log")
            try:
                broker.start()
                return self._measured(broker, launch, Path(folder), rss_limit)
            finally:
                broker.stop()

    def _measured(self, broker: Running, launch: Launch, folder: Path, rss_limit: float) -> list[verdict.Line]:
        assert launch.http is not None
        told = Told()
        watch = Watch(broker.pid, folder / "data", folder / "output.log", told, time.perf_counter())
        self.samples = watch.samples
        with (
            forked(ask, launch.http, told) as asker,
            forked(client.measure, broker.address, "well-behaved", EVERY_S, False) as quick,
            forked(client.measure, broker.address, "well-behaved.durable", DURABLE_EVERY_S, True) as durable,
            forked(control.measure) as sleeper,
        ):
            quick.take(START_LIMIT_S)
            durable.take(START_LIMIT_S)
            sleeper.take(START_LIMIT_S)
            start_rss_bytes = broker.rss_bytes()
            self._sample(watch, CALM_S)
            with suppress(KeyboardInterrupt):
                self._load(broker, watch)
            self._delete_queues(broker, launch.http)
            self._sample(watch, SETTLE_S)
            times = client.take(quick), client.take(durable)
            beside = control.take(sleeper)
            asker.start()
        last = watch.look()
        watch.samples.pop()
        self.errors = watch.errors()
        end = verdict.End(
            start_rss_bytes, last.rss_bytes, last.alarms, self.errors, watch.warnings(), last.rss_bytes > 0
        )
        verdict.spread_over(watch.samples, watch.began, *times)
        return verdict.lines(watch.samples, *times, beside, end, rss_limit)

    def _load(self, broker: Running, watch: Watch) -> None:
        with ExitStack() as stack:
            children = [
                stack.enter_context(forked(loads.keep_going, load, broker.address, self.board, slot))
                for slot, load in enumerate(self.chosen.values())
            ]
            try:
                self._sample(watch, self._seconds)
            finally:
                self.board.end()
            self._progress.print("stopping the loads", style="dim")
            deadline = time.perf_counter() + STOP_LIMIT_S
            for child in children:
                child.take(START_LIMIT_S)  # skip the report of its start
                with suppress(Refused):  # leaving the block kills it
                    child.take(max(0.1, deadline - time.perf_counter()))

    def _sample(self, watch: Watch, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        while (now := time.perf_counter()) < deadline:
            sample = watch.look()
            if len(watch.samples) % 10 == 0:
                self._progress.print(_shown(sample), style="dim", highlight=False)
            time.sleep(max(0.0, now + PERIOD_S - time.perf_counter()))

    def _delete_queues(self, broker: Running, api: Address) -> None:
        with suppress(OSError, Refused):
            left = [queue["name"] for queue in get(api, "/api/queues")]
            with Client(broker.address) as owner:
                owner.open_channel()
                for name in left:
                    if name.startswith(loads.PREFIX):
                        owner.delete_queue(name)


def _kind() -> Kind:
    """Return rabbitlike with its default settings, including the management API."""
    return brokers.rabbitlike(with_api=True)


def _shown(sample: Sample) -> str:
    return (
        f"{sample.at_s:4.0f} s: {sample.rss_bytes / verdict.MB:.0f} MB, backlog {sample.backlog:,}, "
        f"log {sample.wal_bytes / verdict.MB:.0f} MB, data {sample.data_bytes / verdict.MB:,.0f} MB, "
        f"API {sample.asked_ms:.0f} ms{', alarm' if sample.alarms else ''}"
    )


def _table(lines: list[verdict.Line], soak: Soak) -> Table:
    table = Table(title="Soak", title_justify="left")
    for heading in ("what", "seen", "limit", "kept"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for line in lines:
        kept = "" if not line.limit else "[green]yes[/]" if line.is_kept else "[red]no[/]"
        table.add_row(line.what, line.value, line.limit, kept)
    table.add_section()
    for slot, name in enumerate(soak.chosen):
        refused = f", {soak.board.refusals[slot]} refused" if soak.board.refusals[slot] else ""
        table.add_row(f"load {name}", f"{soak.board.rounds[slot]} rounds{refused}")
    return table


def _as_json(soak: Soak, lines: list[verdict.Line], rss_limit: float) -> str:
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine.facts(),
        "rss_limit_bytes": rss_limit,
        "loads": {
            name: {"rounds": soak.board.rounds[slot], "refused": soak.board.refusals[slot]}
            for slot, name in enumerate(soak.chosen)
        },
        "lines": [dataclasses.asdict(line) for line in lines],
        "samples": [dataclasses.asdict(sample) for sample in soak.samples],
    }
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    typer.run(main)

"""The command line: chooses brokers and scenarios, runs them, prints the table, writes the JSON."""

import contextlib
import enum
import fnmatch
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from benchmarks import brokers, machine, processes, report, runner
from benchmarks.scenarios import scenarios, spark
from benchmarks.scenarios.scenario import Scenario

SECONDS, QUICK_SECONDS = 3.0, 1.0
BACKLOG, QUICK_BACKLOG = 1_000_000, 100_000
NEEDED_FILES = 4096
WIDTH = 160  # without a terminal


class Only(enum.StrEnum):
    RABBITLIKE = "rabbitlike"
    RABBITMQ = "rabbitmq"
    SINK = "sink"


def main(
    scenario: Annotated[list[str] | None, typer.Option(help="Name or pattern; may be given again.")] = None,
    only: Annotated[
        Only | None, typer.Option(help="Run one broker alone; sink shows the generator's own ceiling.")
    ] = None,
    sink: Annotated[
        bool, typer.Option("--sink", help="Beside the brokers one that does next to nothing: the machine's own share.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Samples of which the median counts.")] = 3,
    retake: Annotated[int, typer.Option(min=0, help="How often to retake a sample other programs disturbed.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long a sample loads the broker.")] = SECONDS,
    backlog: Annotated[int, typer.Option(min=1000, help="Messages of 1 KB in the scenarios about backlogs.")] = BACKLOG,
    quick: Annotated[bool, typer.Option("--quick", help="One sample of a second each: a smoke test.")] = False,
    pure: Annotated[bool, typer.Option("--pure", help="Run rabbitlike's sources, not its compiled modules.")] = False,
    rabbitlike_python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter whose rabbitlike is run; this one by default.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to write; benchmarks/results/ by default.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the scenarios and stop.")] = False,
) -> None:
    """Load brokers side by side and compare."""
    console, progress = Console(), Console(stderr=True)
    if not console.is_terminal:
        console.width = WIDTH
    chosen = _choose(scenario, min(backlog, QUICK_BACKLOG) if quick else backlog)
    if list_:
        for entry in chosen:
            console.print(f"{entry.name:<20} {entry.title}", highlight=False)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: stops the brokers and shows the table
    if processes.raise_file_limit() < NEEDED_FILES:
        _give_up(f"open files are limited to fewer than {NEEDED_FILES}; raise the hard limit (ulimit -Hn)")
    kinds = _kinds(only, rabbitlike_python, pure=pure)
    if sink or only is Only.SINK:
        kinds.append(brokers.sink())
    chosen = [entry for entry in chosen if any(runner.side(entry, kind.name) for kind in kinds)]
    versions = {kind.name: kind.version for kind in kinds}
    facts = machine.facts()
    plan = runner.Plan(
        repeat=1 if quick else repeat, retake=retake, seconds=min(seconds, QUICK_SECONDS) if quick else seconds
    )
    target = json or report.RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    outcomes: list[runner.Outcome] = []
    with contextlib.suppress(KeyboardInterrupt):
        for outcome in runner.run(kinds, chosen, plan, say=lambda line: progress.print(line, style="dim")):
            outcomes.append(outcome)
            target.write_text(report.as_json(outcomes, versions, facts))
    report.print_table(console, outcomes, [kind.name for kind in kinds], versions)
    progress.print(f"written to {target}", highlight=False, soft_wrap=True)
    figures = [figure for outcome in outcomes for figure in outcome.figures.values()]
    if len(outcomes) < len(chosen) or any(figure.failures for figure in figures):
        raise typer.Exit(1)


def _choose(patterns: list[str] | None, backlog: int) -> list[Scenario]:
    known = scenarios(backlog)
    chosen = [
        entry
        for entry in known
        if any(fnmatch.fnmatch(entry.name, pattern) for pattern in patterns or ["*"])
        and (patterns or not entry.name.startswith(spark.PREFIX))
    ]
    if not chosen:
        _give_up(f"no scenario matches; there are: {', '.join(entry.name for entry in known)}")
    return chosen


def _kinds(only: Only | None, python: str | None, *, pure: bool) -> list[brokers.Kind]:
    kinds: list[brokers.Kind] = []
    if only is Only.SINK:
        return kinds
    if only is not Only.RABBITMQ:
        try:
            kinds.append(brokers.rabbitlike(python, pure=pure))
        except brokers.CannotStart as error:
            _give_up(f"{error}: run `pip install .` or give --rabbitlike-python")
    if only is not Only.RABBITLIKE:
        rabbitmq = brokers.rabbitmq()
        if rabbitmq is not None:
            kinds.append(rabbitmq)
        elif only is Only.RABBITMQ:
            _give_up("rabbitmq-server is not installed")
        else:
            print("rabbitmq-server is not installed: no ratios", file=sys.stderr)
    return kinds


def _give_up(why: str) -> NoReturn:
    print(why, file=sys.stderr)
    raise typer.Exit(2)


if __name__ == "__main__":
    typer.run(main)

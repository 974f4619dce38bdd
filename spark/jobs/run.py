"""The command `rabbitlike-pipeline`: turns a broker's events into tables, Parquet files, messages and a report page.

It imports Spark only after it has checked the arguments.
"""

import signal
import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from rabbitlike.spark.jobs import durations, inputs, session

console, errors = Console(), Console(stderr=True, soft_wrap=True)
if not console.is_terminal:
    console.width = 120


class Mode(StrEnum):
    BATCH = "batch"
    STREAM = "stream"


class Guarantee(StrEnum):
    AT_LEAST_ONCE = "at-least-once"
    EFFECTIVELY_ONCE = "effectively-once"
    EXACTLY_ONCE = "exactly-once"


def main(
    input_: Annotated[
        str, typer.Option("--input", help="Folder of events, or any place Spark can read.")
    ] = inputs.DEFAULT,
    output: Annotated[str | None, typer.Option(help="Folder for the results as Parquet.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write, with charts.")] = None,
    amqp_uri: Annotated[
        str | None, typer.Option(envvar="AMQP_URI", show_default=False, help="Broker to publish results to.")
    ] = None,
    exchange: Annotated[str, typer.Option(help="Topic exchange to publish to; made if it is not there.")] = "metrics",
    mode: Annotated[Mode, typer.Option(help="All there is once, or whatever comes.")] = Mode.BATCH,
    window: Annotated[
        str, typer.Option(help=f"Length of windows: {durations.EXAMPLES}; auto fits the time events span.")
    ] = "auto",
    since: Annotated[
        str | None, typer.Option(help="Only events from then on: 2026-11-16T14:00, or 2h ago as 2h.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only events before then.")] = None,
    guarantee: Annotated[
        Guarantee | None,
        typer.Option(show_default=False, help="Of publishing. By default at-least-once; exactly-once in a stream."),
    ] = None,
    job: Annotated[str, typer.Option(help="Name that results carry.")] = "pipeline",
    top: Annotated[int, typer.Option(min=1, help="Poison messages to name for each queue.")] = 10,
    poison: Annotated[int, typer.Option(min=1, help="Returns after which a message is suspect.")] = 3,
    delay: Annotated[str, typer.Option(help="Stream: how late events may come before a window is finished.")] = "10s",
    checkpoint: Annotated[
        Path | None, typer.Option(show_default=False, help="Stream: where it goes on from. OUTPUT/_checkpoint.")
    ] = None,
    every: Annotated[str, typer.Option(help="Stream: how often to look for new files.")] = "10s",
    once: Annotated[bool, typer.Option("--once", help="Stream: take what there is and stop.")] = False,
    master: Annotated[
        str | None, typer.Option(show_default=False, help="Spark's master; local[*], or what spark-submit says.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show where errors come from.")] = False,
) -> None:
    """Analyse the events that a broker logged: throughput, waits, failures, starvation, anomalies, poison messages.
    Prints tables; the options also write Parquet files, publish messages and draw a page."""
    from rabbitlike.spark.jobs.errors import told

    with told(errors, verbose):
        now = datetime.now(UTC)
        from rabbitlike.spark.jobs.plan import Plan, checkpoint_of

        plan = Plan(
            place=input_,
            output=output,
            report=report,
            uri=amqp_uri,
            exchange=exchange,
            window_us=None if window == "auto" else durations.parse_us(window),
            since=durations.parse_moment(since, now) if since else None,
            until=durations.parse_moment(until, now) if until else None,
            guarantee=str(guarantee or (Guarantee.EXACTLY_ONCE if mode is Mode.STREAM else Guarantee.AT_LEAST_ONCE)),
            job=job,
            top=top,
            poisonous=poison,
            delay_us=durations.parse_us(delay),
            checkpoint=checkpoint,
            every_us=durations.parse_us(every),
            once=once,
            master=master,
            verbose=verbose,
        )
        # Before Spark, which is slow to start, and before anything that needs Spark.
        if mode is Mode.STREAM:
            inputs.look(plan.place)
            checkpoint_of(plan)
        else:
            inputs.find(plan.place, plan.since, plan.until)
        session.check()
        if mode is Mode.STREAM:
            from rabbitlike.spark.jobs.follow import follow

            follow(plan, console)
        else:
            from rabbitlike.spark.jobs.batch import run

            run(plan, console)


def cli() -> NoReturn:
    """Entry point of the console script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    typer.run(main)
    sys.exit(0)


if __name__ == "__main__":
    cli()

"""One batch run over all existing events."""

import time
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from rabbitlike.spark.jobs import inputs, outputs, partials, session
from rabbitlike.spark.jobs.durations import shown_window
from rabbitlike.spark.jobs.messages import messages
from rabbitlike.spark.jobs.partials import Partials
from rabbitlike.spark.jobs.plan import Plan
from rabbitlike.spark.jobs.progress import Progress
from rabbitlike.spark.jobs.report.gather import Story, gather
from rabbitlike.spark.jobs.report.page import write_page
from rabbitlike.spark.jobs.results import Results, Settings, overview, results, settled
from rabbitlike.spark.jobs.tables import show


@dataclass(frozen=True, slots=True)
class Work:
    """Partials and the results made of them."""

    partials: Partials
    results: Results


def work_out(events: DataFrame, settings: Settings) -> Work:
    """Read the events once for each of the partials, and derive all results from the partials."""
    counted = partials.count(events, settings.window_us, settings.poisonous)
    kept = Partials(counted.cells, counted.consumers, settled(counted.suspects))
    return Work(kept, results(kept, settings))


def run(plan: Plan, console: Console, spark: SparkSession | None = None) -> Story:
    """Run the plan; a given `spark` session is used unchanged and not stopped."""
    events = inputs.find(plan.place, plan.since, plan.until)
    session.check()
    window_us = plan.window_us or inputs.fitting_window_s(events) * 1_000_000
    settings = Settings(window_us, poisonous=plan.poisonous, top=plan.top)
    began = time.monotonic()
    with Progress(console) as progress:
        progress.step("Starting Spark")
        own = (
            None
            if spark
            else session.start(plan.master, size=events.size if events.files else None, verbose=plan.verbose)
        )
        spark = spark or own
        assert spark is not None
        try:
            progress.watch(spark)
            story = _run(spark, plan, events, settings, progress)
        finally:
            progress.watch(None)
            if own is not None:
                own.stop()
    show(story, console)
    console.print(
        f"{story.events:,} events in windows of {shown_window(window_us)}, in {time.monotonic() - began:.1f} s",
        style="dim",
    )
    for line in told(plan, story):
        console.print(line)
    return story


def _run(spark: SparkSession, plan: Plan, events: inputs.Events, settings: Settings, progress: Progress) -> Story:
    count = "events" if events.files is None else f"{len(events.files):,} files ({events.size / 1e6:,.1f} MB)"
    progress.step(f"Reading {count}")
    work = work_out(inputs.read(spark, events, plan.since, plan.until), settings)
    published = 0
    if plan.output is not None:
        progress.step(f"Writing {plan.output}")
        outputs.write(work.results, plan.output, settings.window_us)
    if plan.uri is not None:
        progress.step(f"Publishing to the exchange {plan.exchange}")
        made = messages(work.results, plan.job, settings.window_us)
        published = outputs.publish(made, outputs.Broker(plan.uri, plan.guarantee, plan.exchange))
    progress.step("Looking at the whole")
    story = gather(
        work.results,
        overview(work.results, work.partials.suspects, settings),
        settings,
        plan.place,
        plan.job,
        published,
    )
    if plan.report is not None:
        progress.step(f"Drawing {plan.report}")
        write_page(story, plan.report)
    return story


def told(plan: Plan, story: Story) -> list[str]:
    """Say where the results are."""
    lines = []
    if plan.uri is not None:
        lines.append(f"published: {story.published:,} messages to the exchange {plan.exchange}")
    if plan.output is not None:
        lines.append(f"written:   {plan.output}")
    if plan.report is not None:
        lines.append(f"report:    {plan.report.resolve().as_uri()}")
    return lines

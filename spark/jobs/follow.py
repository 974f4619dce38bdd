"""A streaming run: publishes the results of windows as they finish."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from rabbitlike.spark.jobs import inputs, outputs, session
from rabbitlike.spark.jobs.durations import shown_window
from rabbitlike.spark.jobs.messages import messages
from rabbitlike.spark.jobs.plan import Plan, checkpoint_of
from rabbitlike.spark.jobs.report.gather import Story, gather
from rabbitlike.spark.jobs.report.page import write_page
from rabbitlike.spark.jobs.results import Settings
from rabbitlike.spark.jobs.stream import Finished, Follower, Store
from rabbitlike.spark.jobs.tables import show

WINDOW_US = 60_000_000
#: Event files per epoch: a broker at its limit fills one per second.
FILES_AT_ONCE = 50
LOOK_EVERY_S = 1


def follow(plan: Plan, console: Console, spark: SparkSession | None = None) -> None:
    """Run until stopped or, with `once`, until all existing events are processed; a given `spark` is used unchanged."""
    folder = checkpoint_of(plan)
    own = None
    session.check()
    if spark is None:
        with console.status("Starting Spark"):
            spark = own = session.start(plan.master, verbose=plan.verbose)
    try:
        query = start(plan, spark, console, folder)
        try:
            _await(query)
        finally:
            query.stop()
    finally:
        if own is not None:
            own.stop()


def start(plan: Plan, spark: SparkSession, console: Console, folder: Path) -> StreamingQuery:
    """Start the query and return it."""
    settings = Settings(plan.window_us or WINDOW_US, poisonous=plan.poisonous, top=plan.top)
    store = Store(folder / "partials")
    broker = None if plan.uri is None else outputs.Broker(plan.uri, plan.guarantee, plan.exchange)

    def publish(finished: Finished) -> None:
        sent = 0
        if plan.output is not None:
            outputs.write(finished.results, plan.output, settings.window_us, finished.epoch)
        if broker is not None:
            made = outputs.revised(messages(finished.results, plan.job, settings.window_us), finished.revisions)
            sent = outputs.publish(made, broker, store.name, finished.epoch)
        story = None
        if plan.report is not None:
            story = gather(finished.history, finished.overview, settings, plan.place, plan.job, sent)
            write_page(story, plan.report)
        _tell(console, finished, settings, sent, story if plan.once else None)

    events = inputs.read_stream(spark, plan.place, FILES_AT_ONCE)
    writer = events.writeStream.foreachBatch(Follower(store, settings, plan.delay_us, publish))
    writer = writer.option("checkpointLocation", str(folder / "spark")).queryName(plan.job)
    if plan.once:
        return writer.trigger(availableNow=True).start()
    console.print(f"following {plan.place}; Ctrl-C stops", style="dim")
    return writer.trigger(processingTime=f"{plan.every_us // 1000} milliseconds").start()


def _tell(console: Console, finished: Finished, settings: Settings, sent: int, story: Story | None) -> None:
    windows = len(finished.revisions)
    again = sum(number > 0 for number in finished.revisions.values())
    late = f", {again} of them again" if again else ""
    length = shown_window(settings.window_us)
    console.print(f"epoch {finished.epoch}: {windows} windows of {length} finished{late}, {sent:,} messages published")
    if story is not None:
        show(story, console)


def _await(query: StreamingQuery) -> None:
    """Wait in slices, so that Ctrl-C takes effect."""
    while query.isActive:
        if query.awaitTermination(LOOK_EVERY_S):
            return
    error = query.exception()
    if error is not None:
        raise error

"""`make pipeline-demo`: starts a broker, makes a minute of traffic with all kinds of failures, and runs the pipeline.

The broker is a separate process on free ports with its data in a temporary folder; at the end only the report and the
results remain.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rabbitlike.spark.address import parse
from rabbitlike.spark.jobs.errors import told
from rabbitlike.spark.jobs.plan import Plan
from rabbitlike.spark.wire import Connection

LISTENING = "rabbitlike: listening on "
WATCHER = "metrics.seen"
FLUSH_MS = 1000
START_S, FILES_S = 30.0, 60.0


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run a broker that logs events to this folder; yield its URI."""
    words = [sys.executable, "-m", "rabbitlike", "serve", "--data-dir", str(folder), "--event-log"]
    words += ["--event-log-interval-ms", str(FLUSH_MS), "--port", "0", "--management-port", "none"]
    with (folder / "broker.log").open("w") as log:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(LISTENING):
                raise RuntimeError(f"the broker did not start: {(folder / 'broker.log').read_text().strip() or line}")
            port = line.strip().rpartition(":")[2].rstrip("/")
            yield f"amqp://guest:guest@127.0.0.1:{port}/"
        finally:
            process.terminate()
            process.communicate()


def wait_for_files(events: Path, seconds: float = FILES_S) -> None:
    """Wait until the files stop growing: the broker writes the last rows after its interval."""
    deadline = time.monotonic() + seconds
    newest = -1.0
    while time.monotonic() < deadline:
        times = [file.stat().st_mtime for file in events.glob("date=*/hour=*/ev-*")]
        if times and max(times) == newest:
            return
        newest = max(times, default=-1.0)
        time.sleep(2.5 * FLUSH_MS / 1000)


def watch(uri: str) -> None:
    """Declare a queue for everything published to the exchange of results."""
    with Connection(parse(uri)) as connection:
        connection.declare_exchange("metrics")
        connection.declare_queue(WATCHER)
        connection.bind_queue(WATCHER, "metrics", "metric.#")


def seen(uri: str) -> list[str]:
    """Return the routing keys of the messages that arrived."""
    with Connection(parse(uri)) as connection:
        return [delivery.routing_key for delivery in connection.get(WATCHER, 1_000_000, no_ack=True)]


def main(
    seconds: Annotated[float, typer.Option(min=5, help="How long to make traffic.")] = 45,
    folder: Annotated[Path, typer.Option(help="Where report and results go.")] = Path("build/pipeline-demo"),
    verbose: Annotated[bool, typer.Option("--verbose")] = False,
) -> None:
    """Start a broker, make traffic with failures, run the pipeline on it and show the results."""
    console = Console()
    if not console.is_terminal:
        console.width = 120
    with told(Console(stderr=True, soft_wrap=True), verbose):
        from rabbitlike.spark.jobs import session
        from rabbitlike.spark.jobs.batch import run
        from rabbitlike.spark.jobs.traffic import make_traffic

        session.check()
        place = Path(tempfile.mkdtemp(prefix="rabbitlike-demo-"))
        try:
            with broker(place) as uri:
                console.print(f"broker at {uri}, data in {place}", style="dim", soft_wrap=True)
                with console.status(f"{seconds:.0f} seconds of traffic with failures"):
                    sent = make_traffic(uri, seconds)
                    ended = datetime.now(UTC)
                console.print(f"{sent:,} messages published, in six queues", style="dim")
                wait_for_files(place / "events")
                watch(uri)
                plan = Plan(
                    place=str(place / "events"),
                    output=str(folder / "results"),
                    report=folder / "report.html",
                    uri=uri,
                    job="demo",
                    # Later events only show the clients disconnecting.
                    until=ended.replace(microsecond=0),
                    verbose=verbose,
                )
                run(plan, console)
                keys = seen(uri)
                example = next((key for key in keys if key.startswith("metric.anomaly")), keys[0] if keys else "none")
                console.print(f"received:  {len(keys):,} messages from the exchange metrics, as {example}")
        finally:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    typer.run(main)

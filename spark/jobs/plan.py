"""What a run of the pipeline was asked to do."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rabbitlike.spark.jobs import inputs


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of the command, read."""

    place: str = inputs.DEFAULT
    output: str | None = None
    report: Path | None = None
    #: None: nothing is published.
    uri: str | None = None
    exchange: str = "metrics"
    #: None: whatever fits.
    window_us: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    guarantee: str = "at-least-once"
    job: str = "pipeline"
    top: int = 10
    poisonous: int = 3
    delay_us: int = 10_000_000
    checkpoint: Path | None = None
    every_us: int = 10_000_000
    once: bool = False
    master: str | None = None
    verbose: bool = False


class NoCheckpoint(ValueError):
    """A stream that does not know where it was would say everything twice."""


def checkpoint_of(plan: Plan) -> Path:
    """Where the stream remembers how far it is."""
    if plan.checkpoint is not None:
        return plan.checkpoint
    if plan.output is None:
        raise NoCheckpoint("A stream needs --output, or --checkpoint: a folder in which it remembers how far it is.")
    folder = inputs.local(plan.output)
    if folder is None:
        raise NoCheckpoint("With --output not on this machine a stream needs --checkpoint, a folder of this machine.")
    return folder / "_checkpoint"

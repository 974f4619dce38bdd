"""The plan of a pipeline run."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rabbitlike.spark.jobs import inputs


@dataclass(frozen=True, slots=True)
class Plan:
    """The parsed arguments of the command."""

    place: str = inputs.DEFAULT
    output: str | None = None
    report: Path | None = None
    #: None: publish nothing.
    uri: str | None = None
    exchange: str = "metrics"
    #: None: choose a fitting length.
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
    """A stream without a checkpoint would publish everything twice."""


def checkpoint_of(plan: Plan) -> Path:
    """Return the folder in which the stream records its progress."""
    if plan.checkpoint is not None:
        return plan.checkpoint
    if plan.output is None:
        raise NoCheckpoint("A stream needs --output, or --checkpoint: a folder in which it remembers how far it is.")
    folder = inputs.local(plan.output)
    if folder is None:
        raise NoCheckpoint("With --output not on this machine a stream needs --checkpoint, a folder of this machine.")
    return folder / "_checkpoint"

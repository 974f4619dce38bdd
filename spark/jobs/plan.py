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

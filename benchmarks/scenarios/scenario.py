"""The contract of a scenario: a name, the meaning of its figure, its bar, and a function that samples it."""

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.brokers import Place, Running

#: Key of a sample's details: the figure as a multiple of a plain fdatasync measured alternately.
TIMES_FDATASYNC = "times_fdatasync"


class Unit(enum.Enum):
    RATE = "per second"
    LATENCY = "µs"
    BYTES = "bytes"
    SECONDS = "seconds"

    @property
    def more_is_better(self) -> bool:
        return self is Unit.RATE


class Messages(enum.Enum):
    """How the messages of a scenario differ. A broker can be faster if one message is repeated."""

    NONE = ""
    ONE = "one, repeated"
    KEYS = "own key or header"
    BODIES = "own bodies"
    PROPERTIES = "own ids, headers"
    SIZES = "own ids, headers, sizes"


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: the figure that judges the scenario, and other observations."""

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    unit: Unit
    run: Callable[[Running, float], Sample]  # takes the broker and the duration of the load in seconds
    bar: float | None = None  # rabbitlike ÷ RabbitMQ: at least this if more is better, else at most this
    pure_bar: float | None = None  # the same for the build without compiled modules
    limit: float | None = None  # rabbitlike's own figure: at most this, whatever RabbitMQ's is
    is_fresh: bool = False  # every sample runs on a newly started broker
    most: int | None = None  # the most samples, however many are requested: some take minutes
    place: Place = Place.MEMORY
    is_ours: bool = False  # RabbitMQ has no such feature
    messages: Messages = Messages.NONE
    is_for_sink: bool = False  # the sink can run it although its place is not memory
    against: Place | None = None  # bars apply to the ratio to rabbitlike itself at this place, not to RabbitMQ


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that `share` of an ascending sequence does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan

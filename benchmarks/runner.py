"""Takes the samples: runs each scenario on each broker in turn, several times, and computes the median.

The brokers alternate by sample rather than by scenario, so that other programs that load the machine for a while
disturb both alike. rabbitlike with a feature of its own and rabbitlike without it alternate in the same way.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from benchmarks import machine, processes
from benchmarks.brokers import CannotStart, Kind, Place, Running
from benchmarks.client import Refused
from benchmarks.scenarios.scenario import Sample, Scenario

BASELINE, OURS, WITHOUT, SINK = "rabbitmq", "rabbitlike", "without", "sink"
OTHERS = "others_share"
DISTURBED = 0.1  # a figure is doubtful if others took at least this share of the machine


@dataclass(slots=True)
class Figure:
    """The samples of one broker in one scenario."""

    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def median(self) -> Sample | None:
        """Return the median sample as a whole: its details belong together."""
        ordered = sorted(self.samples, key=lambda sample: sample.value)
        return ordered[(len(ordered) - 1) // 2] if ordered else None

    def spread(self) -> float:
        """Return largest minus smallest as a share of the median; it shows how quiet the machine was."""
        values = [sample.value for sample in self.samples]
        middle = statistics.median(values) if values else 0.0
        return (max(values) - min(values)) / abs(middle) if middle else 0.0

    def others(self) -> float:
        """Return the largest share of the machine that other programs took during a sample."""
        return max((sample.details.get(OTHERS, 0.0) for sample in self.samples), default=0.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario with the figures of every broker that ran it."""

    scenario: Scenario
    figures: dict[str, Figure]
    bar: float | None

    def ratio(self) -> float | None:
        """Return our figure ÷ RabbitMQ's, or ÷ our own without the feature."""
        if self.scenario.against is not None:
            return self._ratio_without()
        ours, theirs = self._median(OURS), self._median(BASELINE)
        return ours.value / theirs.value if ours and theirs and theirs.value else None

    def _ratio_without(self) -> float | None:
        """Return the median of the ratios of adjacent samples, because these two variants are so close."""
        ours, without = (self.figures[name].samples if name in self.figures else [] for name in (OURS, WITHOUT))
        ratios = [each.value / other.value for each, other in zip(ours, without, strict=False) if other.value]
        return statistics.median(ratios) if ratios else None

    def is_met(self) -> bool | None:
        """Return whether every bar that can be judged is met; None if there is none."""
        met: list[bool] = []
        ratio = self.ratio()
        if ratio is not None and self.bar is not None:
            met.append(ratio >= self.bar if self.scenario.unit.more_is_better else ratio <= self.bar)
        ours = self._median(OURS)
        if ours is not None and self.scenario.limit is not None:
            met.append(ours.value <= self.scenario.limit)
        return all(met) if met else None

    def _median(self, name: str) -> Sample | None:
        return self.figures[name].median() if name in self.figures else None


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure. A disturbed sample is repeated up to `retake` times, and the quietest one kept."""

    repeat: int
    retake: int
    seconds: float


def run(
    kinds: Sequence[Kind], scenarios: Sequence[Scenario], plan: Plan, *, say: Callable[[str], None]
) -> Iterator[Outcome]:
    is_pure = any(kind.is_pure for kind in kinds)
    without = [replace(kind, name=WITHOUT) for kind in kinds if kind.name == OURS]
    with contextlib.ExitStack() as stack:
        stands = [stack.enter_context(Stand(kind)) for kind in (*kinds, *without)]
        for scenario in scenarios:
            sides = [(stand, part) for stand in stands if (part := side(scenario, stand.kind.name)) is not None]
            figures = {stand.kind.name: Figure() for stand, _ in sides}
            repeat = min(plan.repeat, scenario.most or plan.repeat)
            for turn in range(repeat):
                for stand, part in sides:
                    say(f"{scenario.name}: {stand.kind.name} {turn + 1}/{repeat}")
                    stand.sample(part, plan, figures[stand.kind.name])
            yield Outcome(scenario, figures, scenario.pure_bar if is_pure else scenario.bar)


def side(scenario: Scenario, name: str) -> Scenario | None:
    """Return the variant of a scenario that the broker of this name runs, or None."""
    if name == WITHOUT:
        return None if scenario.against is None else replace(scenario, place=scenario.against)
    if name == SINK and not (scenario.place is Place.MEMORY or scenario.is_for_sink):  # it stores and confirms nothing
        return None
    return None if name != OURS and scenario.is_ours else scenario


class Stand:
    """Takes the samples of one kind of broker.

    The broker runs as long as the scenarios have the same place, and is restarted after a failure.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._stack = contextlib.ExitStack()
        self._broker: Running | None = None
        self._place = Place.MEMORY
        self._is_dead = False  # failed to start once, and is not started again

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._broker = None
        self._stack.close()

    def sample(self, scenario: Scenario, plan: Plan, figure: Figure) -> None:
        if self._is_dead:
            return
        try:
            taken = [self._take(scenario, plan.seconds)]
            retake = plan.retake if scenario.most is None else 0
            while taken[-1].details.get(OTHERS, 0.0) > DISTURBED and len(taken) <= retake:
                taken.append(self._take(scenario, plan.seconds))
            figure.samples.append(min(taken, key=lambda sample: sample.details.get(OTHERS, 0.0)))
        except CannotStart as error:
            figure.failures.append(str(error))
            self._is_dead = True
        except (Refused, OSError) as error:
            figure.failures.append(str(error) or type(error).__name__)
            self.__exit__()

    def _take(self, scenario: Scenario, seconds: float) -> Sample:
        if scenario.is_fresh:
            watch = Watch()
            with self.kind.running(scenario.place) as broker:
                return watch.note(scenario.run(broker, seconds), broker.cpu_seconds())
        if self._place is not scenario.place:
            self.__exit__()
        if self._broker is None:
            self._place = scenario.place
            self._broker = self._stack.enter_context(self.kind.running(scenario.place))
        broker = self._broker
        watch = Watch(broker.cpu_seconds())
        return watch.note(scenario.run(broker, seconds), broker.cpu_seconds())


class Watch:
    """Measures the share of the machine taken by programs that are not part of a sample."""

    def __init__(self, broker_cpu_s: float = 0.0) -> None:
        self._began = time.perf_counter()
        self._others = self._others_cpu_seconds(broker_cpu_s)

    def note(self, sample: Sample, broker_cpu_s: float) -> Sample:
        offered = (time.perf_counter() - self._began) * machine.cores()
        others = self._others_cpu_seconds(broker_cpu_s) - self._others
        return Sample(sample.value, {**sample.details, OTHERS: max(0.0, others / offered)})

    @staticmethod
    def _others_cpu_seconds(broker_cpu_s: float) -> float:
        return processes.machine_cpu_seconds() - processes.own_cpu_seconds(with_children=True) - broker_cpu_s

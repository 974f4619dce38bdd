"""Takes the samples: each scenario on each broker in turn, again and again, and the median of what came out.

The brokers take turns sample by sample rather than scenario by scenario, so that a neighbour who loads the machine
for a while spoils both alike.
"""

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.brokers import CannotStart, Kind, Running
from benchmarks.client import Refused
from benchmarks.scenarios.scenario import Sample, Scenario

BASELINE, OURS = "rabbitmq", "rabbitlike"


@dataclass(slots=True)
class Figure:
    """What one broker did in one scenario."""

    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def median(self) -> Sample | None:
        """The sample in the middle, whole: its details belong together."""
        ordered = sorted(self.samples, key=lambda sample: sample.value)
        return ordered[(len(ordered) - 1) // 2] if ordered else None

    def spread(self) -> float:
        """Largest minus smallest, as a share of the median; tells how quiet the machine was."""
        values = [sample.value for sample in self.samples]
        middle = statistics.median(values) if values else 0.0
        return (max(values) - min(values)) / abs(middle) if middle else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario with the figures of every broker that ran it."""

    scenario: Scenario
    figures: dict[str, Figure]
    bar: float | None

    def ratio(self) -> float | None:
        """Ours ÷ RabbitMQ's."""
        ours, theirs = (self.figures[name].median() if name in self.figures else None for name in (OURS, BASELINE))
        return ours.value / theirs.value if ours and theirs and theirs.value else None

    def is_met(self) -> bool | None:
        ratio = self.ratio()
        if ratio is None or self.bar is None:
            return None
        return ratio >= self.bar if self.scenario.unit.more_is_better else ratio <= self.bar


def run(
    kinds: Sequence[Kind],
    scenarios: Sequence[Scenario],
    *,
    repeat: int,
    seconds: float,
    say: Callable[[str], None],
) -> list[Outcome]:
    outcomes = []
    is_pure = any(kind.is_pure for kind in kinds)
    with contextlib.ExitStack() as stack:
        running: dict[str, Running] = {}
        for scenario in scenarios:
            figures = {kind.name: Figure() for kind in kinds}
            for turn in range(repeat):
                for kind in kinds:
                    say(f"{scenario.name}: {kind.name} {turn + 1}/{repeat}")
                    _sample(kind, scenario, seconds, running, stack, figures[kind.name])
            outcomes.append(Outcome(scenario, figures, scenario.pure_bar if is_pure else scenario.bar))
    return outcomes


def _sample(
    kind: Kind,
    scenario: Scenario,
    seconds: float,
    running: dict[str, Running],
    stack: contextlib.ExitStack,
    figure: Figure,
) -> None:
    try:
        if scenario.is_fresh:
            with kind.running() as broker:
                figure.samples.append(scenario.run(broker, seconds))
            return
        if kind.name not in running:
            running[kind.name] = stack.enter_context(kind.running())
        figure.samples.append(scenario.run(running[kind.name], seconds))
    except (CannotStart, Refused, OSError) as error:
        figure.failures.append(str(error) or type(error).__name__)

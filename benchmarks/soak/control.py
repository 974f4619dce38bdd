"""What the machine itself adds to the times of the well-behaved client: how late a sleeping process wakes up.

On a shared machine, the host may take a virtual CPU away for longer than the limits allow. A client gets no answer
before it runs itself, so its times are shown beside these.
"""

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bystander import EVERY_S
from benchmarks.children import Child, Parent
from benchmarks.client import Refused

ANSWER_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Control:
    #: Sorted.
    late_ms: Sequence[float]
    #: Share of the CPU time that the host gave to others while this machine wanted it.
    stolen: float


def measure(parent: Parent) -> None:
    """Sleep as long as the client does between two messages, until the runner ends the measurement."""
    late_ms = array("d")
    stolen, total = _processor_ticks()
    parent.ready()
    while not parent.is_started():
        due = time.perf_counter() + EVERY_S
        time.sleep(EVERY_S)
        late_ms.append((time.perf_counter() - due) * 1000)
    stolen_now, total_now = _processor_ticks()
    parent.give((stolen_now - stolen) / max(1, total_now - total), *late_ms)


def take(child: Child) -> Control:
    """End the measurement and return the result."""
    try:
        child.start()
        stolen, *late_ms = child.take(ANSWER_LIMIT_S)
    except (OSError, EOFError, Refused):
        return Control((), 0.0)
    return Control(sorted(late_ms), stolen)


def _processor_ticks() -> tuple[int, int]:
    """Return stolen and total CPU ticks."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:  # not Linux
        return 0, 0
    return fields[7], sum(fields)

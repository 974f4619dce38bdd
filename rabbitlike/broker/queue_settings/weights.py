"""What shares the levels of a queue get: `x-priority-weights` checked and read, and what holds without it.

Weights are said for the highest level first, as people speak of them; here they stand by level number. Pure.
"""

from collections.abc import Sequence
from typing import Final

LARGEST_WEIGHT: Final = 10_000
#: How long a message waits before it goes ahead of its level's turn, where levels have shares and nothing else is said.
DEFAULT_MAX_WAIT_MS: Final = 30_000
MAX_LEVELS: Final = 256
#: Of five levels: half of all for the highest, and something for everyone.
FIVE: Final = (50, 25, 15, 7, 3)


def read(value: object) -> list[int] | None:
    """Weights, the highest level's first, from a list of numbers or a string like "50,25,15,7,3"; None: it is none."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",")]
        if not all(part.isascii() and part.isdigit() and len(part) <= 5 for part in parts):
            return None
        value = [int(part) for part in parts]
    if not isinstance(value, Sequence) or isinstance(value, bytes) or not 0 < len(value) <= MAX_LEVELS:
        return None
    weights: list[int] = []
    for weight in value:
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 < weight <= LARGEST_WEIGHT:
            return None
        weights.append(weight)
    return weights


def by_level(said: Sequence[int] | None, levels: int) -> tuple[int, ...]:
    """The weight of each level, the lowest first. Levels that nothing was said of have the last weight there is.

    Without any said: 50, 25, 15, 7 and 3 for five levels, else level n has weight n + 1.
    """
    if said is None:
        said = FIVE if levels == len(FIVE) else range(levels, 0, -1)
    highest_first = [*said[:levels], *[said[-1]] * (levels - len(said))]
    return tuple(reversed(highest_first))

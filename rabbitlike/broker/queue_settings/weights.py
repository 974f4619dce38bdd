"""Weights of the levels of a queue: checks and reads `x-priority-weights`, and defines the defaults.

Users give the weight of the highest level first; `by_level` orders weights by level number. Pure.
"""

from collections.abc import Sequence
from typing import Final

LARGEST_WEIGHT: Final = 10_000
#: Default priority-max-wait of weighted levels: a message that waits longer is delivered before its level's turn.
DEFAULT_MAX_WAIT_MS: Final = 30_000
MAX_LEVELS: Final = 256
#: Default weights of five levels: half for the highest, and some for each other level.
FIVE: Final = (50, 25, 15, 7, 3)


def read(value: object) -> list[int] | None:
    """Read weights, the highest level's first, from a list of numbers or a string like "50,25,15". None: invalid."""
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
    """The weight of each level, the lowest first. Levels without a given weight have the last given weight.

    Without given weights: 50, 25, 15, 7 and 3 for five levels, else level n has weight n + 1.
    """
    if said is None:
        said = FIVE if levels == len(FIVE) else range(levels, 0, -1)
    highest_first = [*said[:levels], *[said[-1]] * (levels - len(said))]
    return tuple(reversed(highest_first))

"""Fixtures of the wire tests: one broker in memory with default settings, and somebody else who uses it."""

from collections.abc import Iterator

import pytest

from rabbitlike import _build
from tests.support import turns
from tests.support.bystander import Bystander
from tests.support.pair import Pair

#: No turn of any test takes longer, in CPU time; without a compiler everything does. On a FakeClock no time passes, so
#: that a whole read is one turn; what exceeds this is work that nothing bounds: give it to `Turn.run`.
LONGEST_TURN_S = 3.0 if _build.built_modules() else 6.0


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def bystander(pair: Pair) -> Bystander:
    return Bystander(pair)


@pytest.fixture(autouse=True)
def no_turn_is_long() -> Iterator[None]:
    """Whatever a test does, no turn of it may be long."""
    turns.recorder.longest_s = 0.0
    turns.recorder.on_turn = None
    yield
    turns.recorder.on_turn = None
    assert turns.recorder.longest_s < LONGEST_TURN_S, f"a turn took {turns.recorder.longest_s:.3f} s of CPU time"

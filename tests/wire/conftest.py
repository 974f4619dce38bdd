"""Fixtures of the wire tests: one broker in memory with default settings, and somebody else who uses it."""

from collections.abc import Iterator

import pytest

from rabbitlike import _build
from tests.support import turns
from tests.support.bystander import Bystander
from tests.support.pair import SLICED, Pair

#: No turn of any test takes more CPU time. With turns of one step (`make test-sliced`) the limit is for a single step.
#: Otherwise the clock stands still, so that turns do not end early: beyond the limit is work that nothing bounds. Give
#: it to `Turn.run`.
LONGEST_TURN_S = 0.25 if SLICED else 1.0
if not _build.built_modules() or _build.is_on("RABBITLIKE_CHECKED"):
    LONGEST_TURN_S = 6.0


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

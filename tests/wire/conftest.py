"""Fixtures of the wire tests: one broker in memory with default settings, and somebody else who uses it."""

import pytest

from tests.support.bystander import Bystander
from tests.support.pair import Pair


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def bystander(pair: Pair) -> Bystander:
    return Bystander(pair)

"""Fixtures of the wire tests: one broker in memory with default settings."""

import pytest

from tests.support.pair import Pair


@pytest.fixture
def pair() -> Pair:
    return Pair()

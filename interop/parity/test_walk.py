"""Conversations that nobody thought of: the same seeds each time, more of them with PARITY_WALKS=500."""

import os

import pytest

from interop.parity.talk import Ports
from interop.parity.walk import Step, Walk, make, shorten

WALKS = int(os.environ.get("PARITY_WALKS", "50"))
FIRST = int(os.environ.get("PARITY_FIRST", "0"))
LENGTH = 60
TRIES = 40  # to make a walk shorter that has found something


@pytest.mark.parametrize("seed", range(FIRST, FIRST + WALKS))
def test_walk(ports: Ports, seed: int) -> None:
    steps = make(seed, LENGTH)
    if not Walk(ports).take(steps):
        return
    told: list[str] = []

    def fails(some: list[Step]) -> bool:
        walk = Walk(ports)
        if not walk.take(some):
            return False
        told[:] = [*map(str, walk.talk.differences), "", *walk.talk.transcript]
        return True

    steps = shorten(steps, fails, TRIES)
    pytest.fail("\n".join([f"seed {seed}, {len(steps)} steps", *map(str, steps), "", *told]), pytrace=False)

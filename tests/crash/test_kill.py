"""A broker under load is killed at random moments, again and again, and never breaks a promise.

CRASH_ROUNDS sets how often (`make crash N=500`), CRASH_SEED the dice. Most lives share one data folder, so that what
one life left half done is the next one's beginning; a few start afresh, as users start it.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rabbitlike.storage.check import check
from tests.crash.load import Load, audit, prepare
from tests.support.crash_ledger import Ledger
from tests.support.crash_process import FRAIL, REAL, DurableProcess

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "50"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
FRESH = 4
#: A kill that early meets the broker while clients are still connecting.
SHORTEST_S, LONGEST_S = 0.02, 0.6


class Trial:
    """One data folder, the lives of brokers on it, and what their clients know."""

    def __init__(self, folder: Path, dice: random.Random, *, program: tuple[str, ...], sabotage: str = "") -> None:
        self.folder = folder
        self.dice = dice
        self.ledger = Ledger()
        self.faults: list[str] = []
        self._start: Callable[[], DurableProcess] = lambda: DurableProcess(folder, program=program, sabotage=sabotage)
        self._lives = 0

    async def live(self, after_s: float | None = None) -> None:
        """One life: look at what the last one left, work, and be killed."""
        self._lives += 1
        process = self._start()
        said = ""
        try:
            if self._lives == 1:
                await prepare(self.ledger, process.port)
            else:
                self.faults += await audit(self.ledger, process.port, self.dice, self._lives)
            load = Load(self.ledger, process.port, self.dice, self._lives)

            def kill() -> None:
                nonlocal said
                said = process.kill()

            await load.run(kill, self.dice.uniform(SHORTEST_S, LONGEST_S) if after_s is None else after_s)
        finally:
            self._listen(said or process.kill())

    async def finish(self) -> None:
        """The last look; a clean end must leave a sound folder."""
        process = self._start()
        try:
            self.faults += await audit(self.ledger, process.port, self.dice, self._lives + 1, keeps=0.0)
        except BaseException:
            process.kill()
            raise
        self._listen(process.stop())
        self.faults += check(self.folder).problems

    def _listen(self, said: str) -> None:
        if "Traceback" in said or "recovery:" in said:
            self.faults.append(f"the broker complained in life {self._lives}: {said}")

    def verdict(self) -> str:
        shown = "\n".join(self.faults[:20])
        return f"seed {SEED}, {len(self.faults)} promises broken by life {self._lives}:\n{shown}"


def dice_for(name: str) -> random.Random:
    return random.Random(f"{SEED} {name}")


async def test_killed_again_and_again(tmp_path: Path) -> None:
    """F1 What was confirmed is there after kill -9, or was consumed and acked."""
    trial = Trial(tmp_path / "data", dice_for("again"), program=FRAIL)
    for _ in range(max(1, ROUNDS - FRESH)):
        await trial.live()
        assert not trial.faults, trial.verdict()
    await trial.finish()
    assert not trial.faults, trial.verdict()
    stored = sum(entry.is_stored for entry in trial.ledger.entries.values())
    assert stored > 20 * ROUNDS, f"the load was too light to prove anything: {stored} messages"


@pytest.mark.parametrize("number", range(min(FRESH, ROUNDS)))
async def test_killed_in_its_first_life(tmp_path: Path, number: int) -> None:
    trial = Trial(tmp_path / "data", dice_for(f"first {number}"), program=REAL)
    await trial.live()
    await trial.finish()
    assert not trial.faults, trial.verdict()

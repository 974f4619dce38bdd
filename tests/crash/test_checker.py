"""The checker is no decoration: a broker that does not wait for its commits, or tears them, is found out."""

from pathlib import Path

import pytest

from tests.crash.test_kill import Trial, dice_for
from tests.support.crash_process import FRAIL

#: What a broker does to its commits (see serve.py), and a word of the fault that must be found.
SABOTAGE = {
    "hasty": "is lost",
    "forgetful": "is lost",
    "torn": "of the same transaction is not",
    "unsettled": "came back",
    "unmarked": "is not redelivered",
}
MOST_LIVES = 20


@pytest.mark.parametrize("sabotage", SABOTAGE)
async def test_sabotage_is_found_out(tmp_path: Path, sabotage: str) -> None:
    trial = Trial(tmp_path / "data", dice_for(sabotage), program=FRAIL, sabotage=sabotage)
    for _ in range(MOST_LIVES):
        await trial.live(after_s=0.3)
        if any(SABOTAGE[sabotage] in fault for fault in trial.faults):
            return
    raise AssertionError(f"nothing of the kind was noticed in {MOST_LIVES} lives: {trial.verdict()}")

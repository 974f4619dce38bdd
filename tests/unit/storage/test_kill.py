"""Killed at any moment, the store has everything it reported, and nothing by halves."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rabbitlike.storage.check import check
from rabbitlike.storage.store import SqliteStore
from tests.support.broker_process import ending
from tests.unit.storage.committing import KEPT, data_of

SCRIPT = Path(__file__).with_name("committing.py")
ROOT = SCRIPT.parents[3]
KILLS = 5


def run_and_kill(folder: Path, durability: str, seconds: float, log_bytes: int = 1 << 20) -> tuple[int, int]:
    """The last commits that began and that were reported."""
    said = folder / "said"
    with said.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, SCRIPT, folder / "data", durability, "1000000", str(log_bytes)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.PIPE,
        )
        assert child.stderr is not None
        with ending(child):
            while child.poll() is None and not said.stat().st_size:
                time.sleep(0.01)
            time.sleep(seconds)
            child.kill()
            errors = child.stderr.read()
    assert not errors, errors.decode()
    words = [line.split() for line in said.read_bytes().decode().splitlines()]
    began = max(int(number) for word, number in words if word == "began")
    return began, max((int(number) for word, number in words if word == "committed"), default=began - 1)


@pytest.mark.parametrize("durability", ["full", "off"])
async def test_kill_and_restart(tmp_path: Path, durability: str) -> None:
    for _ in range(KILLS):
        began, committed = run_and_kill(tmp_path, durability, random.uniform(0.0, 0.3))
        assert check(tmp_path / "data").is_sound
        store = SqliteStore(tmp_path / "data", log_bytes=1 << 20)
        recovered = await store.open()
        assert not recovered.troubles
        last = recovered.batches[-1].batch_id if recovered.batches else 0
        assert committed <= last <= began
        assert [each.batch_id for each in recovered.batches] == [*range(max(1, last - KEPT + 1), last + 1)]
        assert list(recovered.marks) == ([(1, last + 1, 0)] if last else [])
        assert recovered.last_batch_id >= last
        for each in recovered.batches:
            assert store.read(each.batch_id) == data_of(each.batch_id)
        await store.close()
        assert os.listdir(tmp_path / "data")

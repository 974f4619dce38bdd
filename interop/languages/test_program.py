"""What a program does not say, or says went wrong, fails its test, and shows what it wrote to stderr."""

import sys
from pathlib import Path

import pytest

from interop.languages.program import Program

SAYS = """
import sys
print("where it broke", file=sys.stderr)
print("ok first")
print("failed second: not: what was expected")
print("whatever else")
print("restart")
sys.exit(3)
"""


def test_every_check_has_its_line(tmp_path: Path) -> None:
    restarts: list[str] = []
    program = Program([sys.executable, "-c", SAYS], tmp_path, variables={}, restart=lambda: restarts.append("once"))
    try:
        program.expect("first")
        with pytest.raises(AssertionError, match=r"^not: what was expected\nwhere it broke"):
            program.expect("second")
        with pytest.raises(AssertionError, match=r"^said nothing of third \(ended with 3\):\nwhere it broke"):
            program.expect("third")
        assert restarts == ["once"]
    finally:
        program.end()

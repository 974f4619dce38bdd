"""The table of tests that were left out for want of a tool."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, environment
from tests.support.left_out import tool_of

TESTS = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_java(n):
    pytest.skip("needs Java: Spark needs Java 17 or newer, and there is none on the PATH")

def test_strace():
    pytest.skip("needs strace")

def test_other():
    pytest.skip("root may write anywhere")

def test_passes():
    pass
"""


@pytest.mark.parametrize(
    ("reason", "tool"),
    [
        ("Skipped: needs strace", "strace"),
        ("needs Java: Spark needs Java 17", "Java"),
        ("needs Ruby with bunny (Debian's ruby-bunny)", "Ruby with bunny"),
        ("needs rabbitmqadmin, which comes with RabbitMQ's management plugin", "rabbitmqadmin"),
        ("Skipped: root may write anywhere", None),
    ],
)
def test_what_is_missing(reason: str, tool: str | None) -> None:
    assert tool_of(reason) == tool


def run(folder: Path, *words: str, **variables: str) -> str:
    plugins = ("-p", "no:cacheprovider", "-p", "tests.support.left_out")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *words, "--rootdir", str(folder), str(folder)],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_ends_with_a_table(tmp_path: Path) -> None:
    """In several processes, too; a second run adds the first one's."""
    (tmp_path / "test_some.py").write_text(TESTS)
    file = str(tmp_path / "left-out.json")
    said = run(tmp_path, "-n", "2", LEFT_OUT=file)
    assert "left out for want of a tool" in said
    assert "      3  Java\n      1  strace\n      4  tests were left out. `make test-tools` installs" in said
    assert "      6  Java\n      2  strace\n      8  tests were left out." in run(tmp_path, LEFT_OUT=file)
    (tmp_path / "test_some.py").write_text("def test_passes(): pass")
    assert "want of a tool" not in run(tmp_path, LEFT_OUT="")


def test_make_knows_the_command() -> None:
    done = subprocess.run(["make", "-n", "test-tools"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ".ci/tools" in done.stdout

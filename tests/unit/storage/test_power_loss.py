"""What is on the disk when: seen from the kernel's side with strace, so that it does not rest on what SQLite says of
itself."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("committing.py")
ROOT = SCRIPT.parents[3]
COMMITS = 20
#: Too long to be copied into the file meanwhile, which would sync as well.
LOG_BYTES = 256 << 20

CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\(\d+<(?P<path>[^>]*)>(?P<rest>.*)")
RESUMED = re.compile(r"(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>.*")


def events_of(trace: str) -> list[tuple[str, str]]:
    """(call, file's name) in the order they were finished; what the script said stands between them as ("said",
    words)."""
    events: list[tuple[str, str]] = []
    unfinished: dict[str, tuple[str, str]] = {}
    for line in trace.splitlines():
        if match := CALL.match(line):
            name, path, rest = match["name"], match["path"], match["rest"]
            if said := re.search(r'"((?:began|committed) \d+)', rest):
                events.append(("said", said[1]))
            elif rest.endswith("<unfinished ...>"):
                unfinished[match["pid"]] = (name, Path(path).name)
            elif "= -1" not in rest:
                events.append((name, Path(path).name))
        elif (match := RESUMED.match(line)) and match["pid"] in unfinished:
            events.append(unfinished.pop(match["pid"]))
    return events


def traced(folder: Path, durability: str) -> list[list[tuple[str, str]]]:
    """For each commit, what happened from its beginning until it was reported."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    trace = folder / "trace"
    calls = "trace=fsync,fdatasync,pwrite64,write,sync_file_range"
    command = ["strace", "-f", "-y", "-qq", "-e", calls, "-o", trace]
    command += [sys.executable, SCRIPT, folder / "data", durability, str(COMMITS), str(LOG_BYTES)]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr.decode()
    events = events_of(trace.read_text())
    commits: list[list[tuple[str, str]]] = []
    for number in range(1, COMMITS + 1):
        first, last = events.index(("said", f"began {number}")), events.index(("said", f"committed {number}"))
        commits.append(events[first + 1 : last])
    return commits


def syncs(commit: list[tuple[str, str]]) -> list[str]:
    return [file for call, file in commit if call in ("fsync", "fdatasync")]


LOG = "rabbitlike.db-wal"


def test_full_a_commit_is_synced_before_it_is_reported(tmp_path: Path) -> None:
    for commit in traced(tmp_path, "full"):
        writes = [at for at, (call, file) in enumerate(commit) if call == "pwrite64" and file == LOG]
        last_sync = max(at for at, (call, file) in enumerate(commit) if call in ("fsync", "fdatasync") and file == LOG)
        assert writes
        assert writes[-1] < last_sync, "something was written to the log after it was synced"
        assert syncs(commit).count(LOG) <= 2, "one sync is enough; a log that starts over syncs its head as well"


def test_normal_commits_are_written_but_not_synced(tmp_path: Path) -> None:
    first, *others = traced(tmp_path, "normal")
    assert syncs(first) == [LOG, "data"], "a new log's head and its name are"
    for commit in others:
        assert ("pwrite64", LOG) in commit
        assert not syncs(commit)


def test_off_syncs_nothing(tmp_path: Path) -> None:
    assert not [file for commit in traced(tmp_path, "off") for file in syncs(commit)]


def test_the_parser_sees_a_sync_that_comes_too_late() -> None:
    """The test above could not fail otherwise."""
    trace = (
        '7 write(1</out>, "began 1\\n", 8) = 8\n'
        '8 pwrite64(5</d/rabbitlike.db-wal>, "x"..., 24, 0) = 24\n'
        "8 fdatasync(5</d/rabbitlike.db-wal> <unfinished ...>\n"
        '7 write(1</out>, "committed 1\\n", 12) = 12\n'
        "8 <... fdatasync resumed>) = 0\n"
    )
    assert events_of(trace) == [
        ("said", "began 1"),
        ("pwrite64", LOG),
        ("said", "committed 1"),
        ("fdatasync", LOG),
    ]

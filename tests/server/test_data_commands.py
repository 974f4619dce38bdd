"""`rabbitlike check` and `rabbitlike backup` as their users meet them, beside a broker that serves and without one."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rabbitlike.cli import _size
from tests.support.broker_process import BrokerProcess, environment, running
from tests.support.publisher import Publisher, numbers_in

QUEUE = "orders"
DATABASE = "rabbitlike.db"


def rabbitlike(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rabbitlike", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(**variables),
    )


def check(folder: Path) -> "subprocess.CompletedProcess[str]":
    return rabbitlike("check", "--data-dir", str(folder))


def backup(folder: Path, destination: Path) -> "subprocess.CompletedProcess[str]":
    return rabbitlike("backup", str(destination), "--data-dir", str(folder))


def assert_refused(ended: "subprocess.CompletedProcess[str]", said: str) -> None:
    assert (ended.returncode, ended.stdout) == (2, ""), ended
    assert said in ended.stderr
    assert ended.stderr.startswith("rabbitlike: ")
    assert ended.stderr.count("\n") == 1, "one line"


def assert_sound(ended: "subprocess.CompletedProcess[str]") -> None:
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    assert "is sound" in ended.stdout
    assert ended.stdout.count("\n") == 1


def state_of(folder: Path) -> dict[str, str]:
    """Every file and what is in it; who held the lock last, and SQLite's index of the log, are no data."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.name not in ("lock", f"{DATABASE}-shm")
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def serving(folder: Path) -> Iterator[BrokerProcess]:
    with running("--no-memory", "--data-dir", str(folder)) as broker:
        yield broker


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[int]]:
    """The folder of a broker that was killed under load, and what it had confirmed. Not to be changed."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    with running("--no-memory", "--data-dir", str(folder)) as broker:
        with Publisher(broker.port, QUEUE) as publisher:
            publisher.confirms(500)
            broker.process.kill()
            broker.process.wait()
    return folder, publisher.confirmed


@pytest.fixture
def killed(left_behind: tuple[Path, set[int]], folder: Path) -> Path:
    """A copy of it."""
    shutil.copytree(left_behind[0], folder)
    return folder


# Backup


def test_a_backup_while_serving_holds_all_that_was_confirmed(
    serving: BrokerProcess, folder: Path, tmp_path: Path
) -> None:
    with Publisher(serving.port, QUEUE) as publisher:
        publisher.confirms(300)
        before = set(publisher.confirmed)
        ended = backup(folder, tmp_path / "copy")
        after = publisher.published
        publisher.confirms(300)  # it serves on
        publisher.stop()
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    size = (tmp_path / "copy" / DATABASE).stat().st_size
    assert ended.stdout == f"{folder} is copied to {tmp_path}/copy ({_size(size)}): serve from it with --data-dir\n"
    assert [file.name for file in (tmp_path / "copy").iterdir()] == [DATABASE]
    assert_sound(check(tmp_path / "copy"))
    with running("--no-memory", "--data-dir", str(tmp_path / "copy")) as restored:
        found = numbers_in(restored.port, QUEUE)
    assert found == list(range(1, len(found) + 1)), "one moment of the queue: nothing missing, nothing twice, in order"
    assert max(before) <= len(found) <= after
    assert numbers_in(serving.port, QUEUE) == list(range(1, publisher.published + 1)), "the broker has lost nothing"


def test_backups_one_after_the_other_while_messages_come_and_go(
    serving: BrokerProcess, folder: Path, tmp_path: Path
) -> None:
    """Batches are deleted while they are copied: each copy is sound all the same."""
    with Publisher(serving.port, QUEUE, size=20_000) as publisher:
        for number in range(3):
            publisher.confirms(200)
            numbers_in(serving.port, QUEUE)
            assert backup(folder, tmp_path / f"copy{number}").returncode == 0
            assert_sound(check(tmp_path / f"copy{number}"))


def test_a_backup_without_a_broker_changes_nothing(killed: Path, tmp_path: Path) -> None:
    before = state_of(killed)
    assert backup(killed, tmp_path / "copy").returncode == 0
    assert state_of(killed) == before
    assert_sound(check(tmp_path / "copy"))


def test_a_backup_overwrites_nothing(killed: Path, tmp_path: Path) -> None:
    before = state_of(killed)
    assert_refused(backup(killed, killed), f"{killed}/{DATABASE} exists: name a folder that holds no backup yet")
    assert state_of(killed) == before
    (tmp_path / "file").touch()
    assert_refused(backup(killed, tmp_path / "file"), "cannot be")


def test_no_backup_of_nothing(tmp_path: Path) -> None:
    ended = backup(tmp_path / "nowhere", tmp_path / "copy")
    assert_refused(ended, f"there is no database in {tmp_path}/nowhere: name the data folder of a broker")
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "nowhere").exists()


def test_no_room_for_a_backup(killed: Path, tmp_path: Path) -> None:
    """Nothing is left of it that could be taken for one."""
    limited = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
    words = ["backup", str(tmp_path / "copy"), "--data-dir", str(killed)]
    ended = subprocess.run(
        [sys.executable, "-c", f"{limited} runpy.run_module('rabbitlike', run_name='__main__')", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert_refused(ended, str(tmp_path / "copy"))
    assert list((tmp_path / "copy").iterdir()) == []


# Check


def test_a_killed_broker_leaves_sound_data(left_behind: tuple[Path, set[int]], killed: Path) -> None:
    _, confirmed = left_behind
    before = state_of(killed)
    ended = check(killed)
    assert_sound(ended)
    messages = int(ended.stdout.partition(" messages in ")[0].rpartition(" ")[2].replace(",", ""))
    assert messages >= len(confirmed)
    assert "of 1 queues" in ended.stdout
    assert state_of(killed) == before
    with running("--no-memory", "--data-dir", str(killed)) as broker:
        assert set(numbers_in(broker.port, QUEUE)) >= confirmed


def test_check_leaves_a_serving_broker_alone(serving: BrokerProcess, folder: Path) -> None:
    with Publisher(serving.port, QUEUE) as publisher:
        publisher.confirms(50)
        assert_refused(
            check(folder), f"data folder {folder} is in use by process {serving.process.pid}: stop that broker"
        )
        publisher.confirms(50)


def test_check_tells_what_does_not_fit_together(killed: Path) -> None:
    connection = sqlite3.connect(killed / DATABASE)
    connection.execute("UPDATE marks SET next_position = 2")
    connection.commit()
    connection.close()
    ended = check(killed)
    *damages, verdict, advice = ended.stdout.splitlines()
    assert (ended.returncode, ended.stderr) == (1, "")
    assert len(damages) == 1
    assert damages[0].startswith("damage: queue 1 has a message at position ")
    assert verdict.startswith(f"{killed}/{DATABASE} is damaged: schema ")
    assert advice == (
        f"next: copy {killed} to a safe place, then put a backup in its place (a copy that `rabbitlike backup` made); "
        "without one, start the broker on it: it leaves out what is damaged, and logs it"
    )


def test_check_tells_of_torn_pages(killed: Path) -> None:
    connection = sqlite3.connect(killed / DATABASE)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with (killed / DATABASE).open("r+b") as file:
        for number in range(2, os.stat(file.fileno()).st_size // page):
            file.seek(number * page)
            file.write(b"\xa5" * 64)
    before = state_of(killed)
    ended = check(killed)
    assert (ended.returncode, ended.stderr) == (1, "")
    *damages, verdict, advice = ended.stdout.splitlines()
    assert damages
    assert "rabbitlike check" not in ended.stdout, "that is what was just done"
    assert advice == (
        f"next: copy {killed} to a safe place, then put a backup in its place (a copy that `rabbitlike backup` made); "
        f"without one, move {DATABASE}, {DATABASE}-wal, {DATABASE}-shm away: the broker starts empty"
    )
    assert all(line.startswith("damage: ") for line in damages)
    assert "is damaged" in verdict
    assert state_of(killed) == before


def test_check_finds_nothing_to_look_at(tmp_path: Path) -> None:
    assert_refused(check(tmp_path / "nowhere"), f"there is no database in {tmp_path}/nowhere")
    (tmp_path / DATABASE).write_text("dear diary\n" * 1000)
    assert_refused(check(tmp_path), "is not a database of this broker")
    assert (tmp_path / DATABASE).read_text() == "dear diary\n" * 1000


# Where the folder is named


def test_the_folder_is_found_as_for_serve(killed: Path, tmp_path: Path) -> None:
    assert_sound(rabbitlike("check", RABBITLIKE_DATA_DIR=str(killed)))
    config = tmp_path / "rabbitlike.toml"
    config.write_text(f'data_dir = "{killed}"\nport = 1\n')
    assert_sound(rabbitlike("check", "--config", str(config)))
    assert rabbitlike("backup", str(tmp_path / "copy"), "--config", str(config)).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["backup"], "Missing argument 'DEST'. Try 'rabbitlike backup --help'."),
        (["check", "data"], "Try 'rabbitlike check --help'."),
        (["check", "--port", "1"], "No such option"),
        (["check", "--config", "/no/such/file"], "cannot read the config file"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words: list[str], said: str) -> None:
    assert_refused(rabbitlike(*words), said)


@pytest.mark.parametrize("command", ["check", "backup"])
def test_help(command: str) -> None:
    ended = rabbitlike(command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "--data-dir" in ended.stdout
    assert "--port" not in ended.stdout


# A damaged log


def test_serve_check_and_backup_say_what_a_damaged_log_has_lost(killed: Path, tmp_path: Path) -> None:
    log = killed / f"{DATABASE}-wal"
    used = len(log.read_bytes().rstrip(b"\0"))
    with log.open("r+b") as file:
        file.seek(used // 2)
        octets = file.read(4)
        file.seek(used // 2)
        file.write(bytes(octet ^ 0xFF for octet in octets))
    before = state_of(killed)
    ended = check(killed)
    assert ended.returncode == 1, ended
    assert "messages are lost" in ended.stdout + ended.stderr
    assert "without one, remove " in ended.stdout.splitlines()[-1]
    assert_refused(
        rabbitlike("serve", "--data-dir", str(killed), "--port", "0", "--management-port", "none"), "are lost"
    )
    assert_refused(backup(killed, tmp_path / "copy"), "are lost")
    assert state_of(killed) == before, "it stays as it is for whoever can repair it"

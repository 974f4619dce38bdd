"""Disks that are full, short of space, read-only, damaged or taken, with a real broker on them: it says so in one line,
confirms nothing falsely, goes on by itself when it can, and keeps all that it confirmed."""

import ctypes
import hashlib
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest

from tests.support.broker_process import BrokerProcess, environment, running
from tests.support.publisher import PERSISTENT, Publisher, numbers_in, parameters, until

QUEUE = "orders"
DATABASE = "rabbitlike.db"
NO_LIMIT = resource.RLIM_INFINITY
#: Less than a page and its head: no commit fits, wherever in the log it would stand.
NO_ROOM = 16_000
DISK_BYTES = 48 << 20


class LimitedFiles:
    """Stands for a disk, wherever the tests run: the kernel lets the broker's files grow no further."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"

    def fill(self, broker: BrokerProcess) -> None:
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (NO_ROOM, NO_LIMIT))

    def free(self, broker: BrokerProcess) -> None:
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))


class SmallDisk:
    """A file system of its own, and a file that takes all of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self._ballast = folder / "ballast"

    def fill(self, broker: BrokerProcess) -> None:
        with self._ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(1 << 20))

    def free(self, broker: BrokerProcess) -> None:
        self._ballast.unlink()


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _may_mount() -> bool:
    try:
        with tempfile.TemporaryDirectory() as folder, mounted(Path(folder), "size=64k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


MAY_MOUNT = _may_mount()
Disk = LimitedFiles | SmallDisk


@pytest.fixture(params=[LimitedFiles, *([SmallDisk] if MAY_MOUNT else [])])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param is LimitedFiles:
        yield LimitedFiles(tmp_path)
        return
    with mounted(tmp_path, f"size={DISK_BYTES}"):
        yield SmallDisk(tmp_path)


def flags(folder: Path, limit: int = 0) -> list[str]:
    return ["--no-memory", "--data-dir", str(folder), "--disk-free-limit", str(limit)]


def kill(broker: BrokerProcess) -> None:
    broker.process.kill()
    broker.process.wait()


@contextmanager
def pika_channel(broker: BrokerProcess) -> Iterator["pika.adapters.blocking_connection.BlockingChannel"]:
    connection = pika.BlockingConnection(parameters(broker.port))
    try:
        yield connection.channel()
    finally:
        with suppress(pika.exceptions.AMQPConnectionError):  # the broker was killed meanwhile
            connection.close()


# Full


def test_a_full_disk_confirms_nothing_and_loses_nothing(disk: Disk) -> None:
    with running(*flags(disk.folder)) as broker, Publisher(broker.port, QUEUE) as publisher:
        publisher.confirms(200)
        disk.fill(broker)
        until(lambda: publisher.blocked, "the broker blocks the publisher")
        assert publisher.blocked == ["low on disk"]
        until(lambda: publisher.refused, "what waited for the commit is nacked")
        confirmed = len(publisher.confirmed)
        time.sleep(1.0)
        assert len(publisher.confirmed) == confirmed, "confirmed with nowhere to put it"
        assert publisher.unblocked == 0

        disk.free(broker)
        until(lambda: publisher.unblocked, "it resumes by itself")
        publisher.confirms(200)
        broker.await_log("commits succeed again")
        kill(broker)
        assert broker.log().count("commit failed") == 1, "once, not at every attempt"
    with running(*flags(disk.folder)) as broker:
        found = numbers_in(broker.port, QUEUE)
    assert publisher.confirmed <= set(found)
    assert found == sorted(set(found)), "in order, none twice"
    assert set(found) <= set(range(1, publisher.published + 1))


def test_killed_while_the_disk_is_full(disk: Disk) -> None:
    """All that was confirmed is there, and a broker that starts on the full disk serves it or says why not."""
    with running(*flags(disk.folder)) as broker, Publisher(broker.port, QUEUE) as publisher:
        publisher.confirms(200)
        disk.fill(broker)
        until(lambda: publisher.refused, "commits fail")
        kill(broker)
    if isinstance(disk, SmallDisk):
        ended = serve(disk.folder)
        if ended is not None:
            assert_refused(ended, "no space left")
        disk.free(broker)
    with running(*flags(disk.folder)) as broker:
        assert publisher.confirmed <= set(numbers_in(broker.port, QUEUE))


def test_consumers_are_served_on_a_full_disk(disk: Disk) -> None:
    with running(*flags(disk.folder)) as broker, pika_channel(broker) as consuming:
        with Publisher(broker.port, QUEUE) as publisher:
            publisher.confirms(200)
            disk.fill(broker)
            until(lambda: publisher.refused, "commits fail")
            taken = [consuming.basic_get(QUEUE) for _ in range(100)]
            consuming.basic_ack(taken[-1][0].delivery_tag, multiple=True)
            assert [int(body[:8]) for _, _, body in taken] == list(range(1, 101))
            disk.free(broker)
            publisher.confirms(100)  # a later commit than that of the acks
            kill(broker)
    with running(*flags(disk.folder)) as broker:
        assert not set(numbers_in(broker.port, QUEUE)) & set(range(1, 101)), "settled, so it never comes back"


@pytest.mark.parametrize("verb", ["declare", "tx"])
def test_answers_wait_for_room(disk: Disk, verb: str) -> None:
    """A durable queue is not declared, and a transaction not committed, before it is on the disk."""

    def ask() -> None:
        with pika_channel(broker) as channel:
            if verb == "declare":
                channel.queue_declare("second", durable=True)
            else:
                channel.tx_select()
                for queue in ("first", "other"):
                    channel.basic_publish("", queue, b"together", PERSISTENT)
                channel.tx_commit()
        done.set()

    done = threading.Event()
    with running(*flags(disk.folder)) as broker:
        with pika_channel(broker) as channel:
            channel.queue_declare("first", durable=True)
            channel.queue_declare("other", durable=True)
        disk.fill(broker)
        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: "commit failed" in broker.log(), "the commit fails")
        assert not done.wait(0.7), "answered with nowhere to put it"
        disk.free(broker)
        assert done.wait(20)
        asking.join()
        kill(broker)
    with running(*flags(disk.folder)) as broker, pika_channel(broker) as channel:
        if verb == "declare":
            channel.queue_declare("second", passive=True)
        else:
            assert [channel.basic_get(queue)[2] for queue in ("first", "other")] == [b"together"] * 2


def test_stopping_on_a_full_disk(disk: Disk) -> None:
    """It does not wait for ever, and does not pretend that all is written."""
    with running(*flags(disk.folder)) as broker, Publisher(broker.port, QUEUE) as publisher:
        publisher.confirms(200)
        disk.fill(broker)
        until(lambda: publisher.refused, "commits fail")
        began = time.monotonic()
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(15) == 2
        assert time.monotonic() - began < 5
        assert broker.log().splitlines()[-1].startswith("rabbitlike: the last changes could not be written: ")
    if isinstance(disk, SmallDisk):
        disk.free(broker)
    with running(*flags(disk.folder)) as broker:
        assert publisher.confirmed <= set(numbers_in(broker.port, QUEUE))


# Short of space


def test_too_little_space_blocks_from_the_start(tmp_path: Path) -> None:
    with running(*flags(tmp_path / "data", 1 << 60)) as broker:
        with Publisher(broker.port, QUEUE) as publisher:
            until(lambda: publisher.blocked, "the broker blocks the publisher")
            assert publisher.blocked == ["low on disk"]
            time.sleep(1.2)  # more than the alarm's interval
            assert not publisher.unblocked
            # The first to publish is told so by being blocked; what it had sent by then is taken and kept.
            assert len(publisher.confirmed) <= publisher.published
            kill(broker)
    with running(*flags(tmp_path / "data")) as broker:
        assert publisher.confirmed <= set(numbers_in(broker.port, QUEUE))


if MAY_MOUNT:

    def test_space_runs_low_and_comes_back(tmp_path: Path) -> None:
        """The limit strikes before the disk is full: no commit ever fails."""
        with mounted(tmp_path, "size=200m"):
            with running(*flags(tmp_path / "data", 100 << 20)) as broker:
                # Slow, for the alarm looks once a second.
                with Publisher(broker.port, QUEUE, window=1, pause_s=0.01) as publisher:
                    publisher.confirms(20)
                    (tmp_path / "ballast").write_bytes(bytes(120 << 20))
                    until(lambda: publisher.blocked, "the alarm sees it")
                    assert publisher.blocked == ["low on disk"]
                    (tmp_path / "ballast").unlink()
                    until(lambda: publisher.unblocked, "the alarm sees it")
                    publisher.confirms(20)
                    publisher.stop()
                    assert not publisher.refused
                    assert "commit failed" not in broker.log()

    def test_a_read_only_disk(tmp_path: Path) -> None:
        with mounted(tmp_path, "size=1m,ro"):
            assert_refused(serve(tmp_path), f"cannot write to the data folder {tmp_path}: Read-only file system")
            assert_refused(serve(tmp_path / "data"), "Read-only file system; choose another with --data-dir")


# Read-only

#: With these root may write where the permissions forbid it; as far as files go it is then a user like others.
CAPABILITIES = (1, 2)
PR_CAPBSET_DROP = 24


def _obey_permissions() -> None:
    for capability in CAPABILITIES:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def serve(folder: Path) -> "subprocess.CompletedProcess[str] | None":
    """`rabbitlike serve` that is expected to end by itself; None when it serves instead."""
    words = ["--port", "0", "--management-port", "none", "--data-dir", str(folder), "--disk-free-limit", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rabbitlike", "serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=_obey_permissions if os.geteuid() == 0 else None,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline():
            return None
        output, errors = process.communicate(timeout=20)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
    finally:
        process.kill()
        process.communicate()


def assert_refused(ended: "subprocess.CompletedProcess[str] | None", said: str) -> None:
    assert ended is not None, "it serves"
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert ended.stderr.startswith("rabbitlike: ")
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert said in ended.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Data of a broker that was stopped."""
    folder = tmp_path / "data"
    with running(*flags(folder)) as broker, Publisher(broker.port, QUEUE) as publisher:
        publisher.confirms(20)
        publisher.stop()
    return folder


def state_of(folder: Path) -> dict[str, str]:
    """Every file; who held the lock last is no data."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.name != "lock"
    }


def test_a_read_only_folder(folder: Path) -> None:
    before = state_of(folder)
    folder.chmod(0o500)
    assert_refused(serve(folder), f"cannot write to the data folder {folder}: Permission denied; choose another")
    folder.chmod(0o700)
    assert state_of(folder) == before


def test_a_read_only_database(folder: Path) -> None:
    before = state_of(folder)
    (folder / DATABASE).chmod(0o400)
    assert_refused(serve(folder), f"{folder}/{DATABASE} cannot be written")
    assert state_of(folder) == before


def test_a_database_nobody_may_read(folder: Path) -> None:
    (folder / DATABASE).chmod(0)
    assert_refused(serve(folder), f"{folder}/{DATABASE}")


# Gone while it is used


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal"])
def test_nothing_is_confirmed_when_a_file_was_deleted(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    with running(*flags(folder)) as broker, pika_channel(broker) as consuming:
        with Publisher(broker.port, QUEUE) as publisher:
            publisher.confirms(200)
            os.kill(broker.process.pid, signal.SIGSTOP)
            (folder / name).unlink()
            known = publisher.answered  # but for what the broker had sent before it was stopped
            time.sleep(0.2)
            sent = len(publisher.confirmed)
            os.kill(broker.process.pid, signal.SIGCONT)
            until(lambda: publisher.blocked, "the alarm sees it")
            assert publisher.blocked == ["low on disk"]
            until(lambda: publisher.refused, "what waited for the commit is nacked")
            time.sleep(1.0)
            # One commit may have been done before the file went, and be reported after.
            assert known <= sent <= len(publisher.confirmed) <= sent + 50
            taken = [consuming.basic_get(QUEUE) for _ in range(100)]
            assert [int(body[:8]) for _, _, body in taken] == list(range(1, 101)), "consumers are served"
            said = f"commit failed: {folder / name} was deleted while the broker uses it: put it back"
            broker.await_log(re.escape(said))
            kill(broker)


def test_a_deleted_database_is_noticed_when_nothing_is_committed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(*flags(folder)) as broker:
        (folder / DATABASE).rename(folder / "elsewhere")
        until(lambda: "disk alarm raised" in broker.log(), "the alarm sees it")
        broker.await_log(re.escape(f"{folder / DATABASE} was moved away while the broker uses it: put it back"))
        (folder / "elsewhere").rename(folder / DATABASE)
        until(lambda: "disk alarm cleared" in broker.log(), "the alarm sees it")
        with Publisher(broker.port, QUEUE) as publisher:
            publisher.confirms(20)
            publisher.stop()


# Damaged, foreign


def _diary(path: Path) -> None:
    path.write_text("dear diary\n" * 1000)


def _other_program(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA application_id = 252006673; CREATE TABLE notes (text)")
    connection.close()


def _other_program_without_a_name(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE notes (text)")
    connection.close()


def _from_the_future(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def _torn_head(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * 4000)


def _torn_pages(path: Path) -> None:
    with path.open("r+b") as file:
        for at in range(16384, path.stat().st_size, 16384):
            file.seek(at)
            file.write(b"\xa5" * 64)


def _cut_short(path: Path) -> None:
    os.truncate(path, 3 * 16384)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_diary, "is not a database of this broker: move it away or choose another data folder"),
        (_other_program, "belongs to another program: move it away or choose another data folder"),
        (_other_program_without_a_name, "belongs to another program"),
        (_from_the_future, "was written by a newer rabbitlike (schema 999"),
        (_torn_head, "is damaged"),
        (_torn_pages, "is damaged"),
        (_cut_short, "is damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_alone(
    folder: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(folder / DATABASE)
    before = state_of(folder)
    assert_refused(serve(folder), f"{folder}/{DATABASE} {said}")
    assert state_of(folder) == before


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _missing(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("harm", "said"), [(_empty, "is empty, so its data is lost"), (_missing, "is missing, but lock")]
)
def test_a_broker_never_starts_empty_where_there_was_data(
    folder: Path, harm: Callable[[Path], None], said: str
) -> None:
    """It would have its default user again, too. `check` agrees."""
    harm(folder / DATABASE)
    before = state_of(folder)
    assert_refused(serve(folder), f"{folder}/{DATABASE} {said}")
    assert state_of(folder) == before
    checked = subprocess.run(
        [sys.executable, "-m", "rabbitlike", "check", "--data-dir", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (checked.returncode, checked.stderr) == (1, "")
    assert checked.stdout.startswith(f"damage: {folder}/{DATABASE} {said}")
    assert state_of(folder) == before


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / DATABASE).mkdir()
    assert_refused(serve(tmp_path), str(tmp_path / DATABASE))


# Taken


def test_one_broker_for_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(*flags(folder)) as first, Publisher(first.port, QUEUE) as publisher:
        publisher.confirms(20)
        assert_refused(
            serve(folder),
            f"data folder {folder} is in use by process {first.process.pid}: stop that broker or choose another folder",
        )
        publisher.confirms(20)
        publisher.stop()
        kill(first)
        with running(*flags(folder)) as second:  # at once: a lock dies with its holder
            assert set(numbers_in(second.port, QUEUE)) >= publisher.confirmed


def test_one_broker_for_a_folder_without_its_lock_file(tmp_path: Path) -> None:
    folder, link = tmp_path / "data", tmp_path / "link"
    link.symlink_to(folder)
    with running(*flags(folder)):
        (folder / "lock").unlink()
        for path in (folder, link):
            assert_refused(serve(path), f"data folder {path} is in use by another process: stop that broker")

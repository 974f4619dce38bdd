"""The event log of a broker process: files when it stops and as it runs, and whole ones alone when it is killed."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.support.broker_process import environment

parquet = pytest.importorskip("pyarrow.parquet")


@contextmanager
def serving(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A broker with its data in this folder; its process and port."""
    words = ["serve", "--data-dir", str(folder), "--port", "0", "--management-port", "none", "--event-log"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rabbitlike", *words, "--event-log-interval-ms", "1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        found = re.search(r"amqp://\S+:(\d+)", process.stdout.readline())
        assert found is not None
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def publish(port: int, count: int) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", "q", b"x", pika.BasicProperties(message_id=f"m-{number}", delivery_mode=2))
    connection.close()


def rows(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "events").glob("date=*/hour=*/*"))
    assert all(file.name.startswith("ev-") for file in files if not file.name.startswith(".")), files
    found = [row for file in files if file.suffix == ".parquet" for row in parquet.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda row: int(row["seq"]))


def test_a_stop_writes_what_there_is_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """G18"""
    for _ in range(2):
        with serving(tmp_path) as (process, port):
            publish(port, 3)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
    found = rows(tmp_path)
    assert [row["event"] for row in found] == ["publish", "enqueue", "confirm"] * 6
    assert len({row["msg_seq"] for row in found if row["event"] == "enqueue"}) == 6
    assert len({row["seq"] for row in found}) == len(found), "numbers are not given twice"


def test_a_broker_that_is_killed_leaves_whole_files(tmp_path: Path) -> None:
    """G18 what was written is there, and whatever has a name of its own can be read."""
    with serving(tmp_path) as (process, port):
        publish(port, 2)
        until = time.monotonic() + 20
        while not list(tmp_path.glob("events/*/*/ev-*")) and time.monotonic() < until:
            time.sleep(0.05)
        publish(port, 1)
        process.kill()
        process.wait()
    assert [row["event"] for row in rows(tmp_path)][:6] == ["publish", "enqueue", "confirm"] * 2

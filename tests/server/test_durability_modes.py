"""`--durability`: what a confirm promises in each mode, seen from the kernel's side between the publish and the confirm
on the socket. That a mode survives the end of the broker is tried by ending it."""

import re
import shutil
import subprocess
from pathlib import Path

import pika
import pytest

from tests.support.broker_process import BrokerProcess, running
from tests.support.publisher import PERSISTENT, Publisher, numbers_in, parameters

QUEUE = "orders"
LOG = "rabbitlike.db-wal"
PUBLISHES = 20
MODES = ["full", "normal", "off"]

CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\(\d+<(?P<path>[^>]*)>(?P<rest>.*)")
RESUMED = re.compile(r"(?P<pid>\d+) +<\.\.\. \w+ resumed>.*= (?P<result>-?\d+)")
#: basic.ack on channel 1, as strace writes it.
CONFIRM = r"\1\0\1\0\0\0\r\0<\0P"
NAMES = {"pwrite64": "wrote", "fsync": "synced", "fdatasync": "synced"}


def events_of(trace: str) -> list[str]:
    """`wrote log`, `synced log` and the like at the moment they were done, `confirmed` at the moment it was begun."""
    events: list[str] = []
    unfinished: dict[str, str] = {}
    for line in trace.splitlines():
        if match := CALL.match(line):
            if match["name"] not in NAMES:
                events += ["confirmed"] * (CONFIRM in match["rest"])
                continue
            event = f"{NAMES[match['name']]} {'log' if match['path'].endswith(LOG) else 'other'}"
            if match["rest"].endswith("<unfinished ...>"):
                unfinished[match["pid"]] = event
            elif "= -1" not in match["rest"]:
                events.append(event)
        elif (match := RESUMED.match(line)) and match["pid"] in unfinished:
            event = unfinished.pop(match["pid"])
            events += [event] * (match["result"] != "-1")
    return events


def traced(broker: BrokerProcess, folder: Path) -> list[list[str]]:
    """Publish one after the other; what happened before each confirm and after the one before it."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    connection = pika.BlockingConnection(parameters(broker.port))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True)
    channel.confirm_delivery()
    calls = "trace=fsync,fdatasync,pwrite64,write,writev,sendto,sendmsg"
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "64",
        "-e",
        calls,
        "-o",
        str(folder / "trace"),
        "-p",
        str(broker.process.pid),
    ]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        said = tracer.stderr.readline()
        if "attached" not in said:
            pytest.skip(f"strace may not attach here: {said}")
        for number in range(PUBLISHES):
            channel.basic_publish("", QUEUE, b"%d" % number, PERSISTENT)
    finally:
        tracer.terminate()
        tracer.communicate()
        connection.close()
    steps: list[list[str]] = [[]]
    for event in events_of((folder / "trace").read_text()):
        if event == "confirmed":
            steps.append([])
        else:
            steps[-1].append(event)
    assert len(steps) == PUBLISHES + 1
    return steps[:-1]


def test_full_a_confirm_means_on_the_disk(tmp_path: Path) -> None:
    with running("--no-memory", "--data-dir", str(tmp_path / "data"), "--durability", "full") as broker:
        for step in traced(broker, tmp_path):
            assert "wrote log" in step
            after = step[len(step) - step[::-1].index("wrote log") :]
            assert "synced log" in after, "confirmed before the log was synced"


def test_normal_a_confirm_means_written(tmp_path: Path) -> None:
    """The log is synced when it starts over or is copied, not for each message."""
    with running("--no-memory", "--data-dir", str(tmp_path / "data"), "--durability", "normal") as broker:
        steps = traced(broker, tmp_path)
    assert all("wrote log" in step for step in steps)
    assert sum("synced log" in step for step in steps) <= PUBLISHES // 4


def test_off_nothing_is_ever_synced(tmp_path: Path) -> None:
    with running("--no-memory", "--data-dir", str(tmp_path / "data"), "--durability", "off") as broker:
        steps = traced(broker, tmp_path)
    assert all("wrote log" in step for step in steps)
    assert not [event for step in steps for event in step if event.startswith("synced")]


def test_a_sync_that_comes_too_late_is_seen() -> None:
    """The tests above could not fail otherwise."""
    trace = (
        '8 pwrite64(5</d/rabbitlike.db-wal>, "x"..., 24, 0) = 24\n'
        "8 fdatasync(5</d/rabbitlike.db-wal> <unfinished ...>\n"
        r'7 write(9<socket:[1]>, "\1\0\1\0\0\0\r\0<\0P\0\0\0\0\0\0\0\1\0\316", 21) = 21'
        "\n8 <... fdatasync resumed>) = 0\n"
    )
    assert events_of(trace) == ["wrote log", "confirmed", "synced log"]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_survives_the_end_of_the_broker(tmp_path: Path, mode: str) -> None:
    flags = ["--no-memory", "--data-dir", str(tmp_path / "data"), "--durability", mode]
    with running(*flags) as broker, Publisher(broker.port, QUEUE) as publisher:
        publisher.confirms(500)
        broker.process.kill()
        broker.process.wait()
    with running(*flags) as broker:
        assert set(numbers_in(broker.port, QUEUE)) >= publisher.confirmed

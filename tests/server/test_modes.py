"""Files of a broker process and of the commands beside it: for their own user alone, under the widest umask."""

import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pika

from tests.support.broker_process import ending, environment


def rabbitlike(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "rabbitlike", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        umask=0,
    )


def run(*words: str) -> None:
    with ending(rabbitlike(*words)) as process:
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said


def test_what_a_broker_writes(tmp_path: Path) -> None:
    folder, options = tmp_path / "data", ("--port", "0", "--management-port", "0", "--event-log")
    serve = rabbitlike("serve", "--data-dir", str(folder), *options, "--unix-socket", str(tmp_path / "amqp.sock"))
    with ending(serve) as process:
        assert process.stdout is not None
        said = ""
        while not (found := re.search(r"http://\S+:(\d+)", said)):
            line = process.stdout.readline()
            assert line, said
            said += line
        amqp = re.search(r"amqp://\S+:(\d+)", said)
        assert amqp is not None
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(amqp[1])))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
        connection.close()
        exported = tmp_path / "definitions.json"
        exported.touch(0o644)
        run("definitions", "export", str(exported), "--url", f"http://127.0.0.1:{found[1]}")
        assert json.loads(exported.read_text())["users"][0]["password_hash"]
        run("backup", str(tmp_path / "copy"), "--data-dir", str(folder))
        process.terminate()
        process.communicate(timeout=60)
    run("check", "--data-dir", str(folder))
    written = {path for each in (folder, tmp_path / "copy") for path in (each, *each.rglob("*"))} | {exported}
    assert any(path.name.startswith("ev-") for path in written)
    for path in written:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path

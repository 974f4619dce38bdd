"""How the broker is doing, its definitions and its log; completion; and what a shell sees of it all."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.commands.test_things import without_colours
from tests.support.broker_process import BrokerProcess, ending, environment, running


def rabbitlike(*words: str, broker: BrokerProcess, **variables: str) -> "subprocess.CompletedProcess[str]":
    url = f"http://127.0.0.1:{broker.management_port}"
    return subprocess.run(
        [sys.executable, "-m", "rabbitlike", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=environment(RABBITLIKE_URL=url, **variables),
    )


def test_status(run: Run) -> None:
    out = run("status").assert_done().out
    for word in ("product", "listeners", "memory", "queues", "published"):
        assert f"\n{word} " in f"\n{out}"
    shown = without_colours(run("status", terminal=True).assert_done().out)
    assert "Broker" in shown
    assert "Messages" in shown
    told = run("status", "--json").assert_done().json
    assert told["overview"]["object_totals"]["exchanges"] >= 7
    assert len(told["nodes"]) == 1
    assert run("show", "overview", "--json").assert_done().json["cluster_name"] == told["overview"]["cluster_name"]
    run("show", "node", told["nodes"][0]["name"]).assert_done()


def test_status_without_the_right_to_see_nodes(run: Run) -> None:
    run("users", "add", "eve", "pw", "--tags", "management").assert_done()
    assert run("status", "-u", "eve", "-p", "pw", "--json").assert_done().json["nodes"] == []
    run("users", "delete", "eve").assert_done()


def test_health(run: Run) -> None:
    rows = run("health", "--certificate-days", "7", "--json").assert_done().json
    assert {row["status"] for row in rows} <= {"ok", "not offered"}
    assert {"alarms", "local-alarms", "virtual-hosts"} <= {row["check"] for row in rows if row["status"] == "ok"}
    assert "alarms" in run("health").assert_done().out


def test_a_check_that_fails_is_seen_in_the_exit_code(bare: Run) -> None:
    with running("--memory-high-watermark", "2") as broker:
        url = f"127.0.0.1:{broker.management_port}"
        ended = bare("health", "--url", url, "--json")
    assert ended.code == 1
    assert any(row["status"] == "failed" and row["reason"] for row in ended.json)


def test_top(run: Run) -> None:
    run("declare", "queue", "busy").assert_done()
    run("publish", "x", "-q", "busy", "-n", "20").assert_done()
    out = run("top", "--once").assert_done().out
    assert "Queues by messages\n" in out
    assert out.splitlines()[2].startswith("published ")
    shown = without_colours(run("top", "--once", "--sort", "ready", terminal=True).assert_done().out)
    assert "Queues by ready" in shown
    assert "busy" in shown
    seen = run("top", "--once", "--json", "-n", "1").assert_done().json
    assert seen["queues"][0]["name"] == "busy"
    run("top", "--sort", "x").assert_refused("'x' is none of messages, ready", 2)
    run("delete", "queue", "busy").assert_done()


def test_top_is_live_until_q(broker: BrokerProcess) -> None:
    """On a terminal of its own: drawn at once, sorted anew by s, ended by q, and the keyboard is as it was."""
    leader, follower = pty.openpty()
    url = f"http://127.0.0.1:{broker.management_port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "rabbitlike", "top", "--every", "0.2"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment(RABBITLIKE_URL=url, TERM="xterm"),
        start_new_session=True,
    )
    os.close(follower)
    with ending(process):
        seen = b""
        deadline = time.monotonic() + 20
        while b"exchanges" not in seen and time.monotonic() < deadline:
            seen += os.read(leader, 65536)
        os.write(leader, b"sq")
        while True:
            try:
                lot = os.read(leader, 65536)
            except OSError:  # nobody is at the other end
                break
            if not lot:
                break
            seen += lot
        os.close(leader)
        assert process.wait(60) == 0
    assert b"published" in seen
    assert seen.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in seen, "the screen is given back"


def test_definitions(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    run("declare", "queue", "kept").assert_done()
    told = run("definitions", "export", str(file)).assert_done().out
    assert told.startswith(f"{file}: 1 vhosts, 1 users, 1 permissions")
    run("delete", "queue", "kept").assert_done()
    assert run("definitions", "import", str(file)).assert_done().out.startswith("imported 1 vhosts")
    assert run("list", "queues", "--columns", "name").assert_done().out == "name\nkept\n"
    exported = run("definitions", "export", "--vhost", "/").assert_done().json
    assert [queue["name"] for queue in exported["queues"]] == ["kept"]
    run("declare", "vhost", "copy").assert_done()
    run("permissions", "set", "guest", "-V", "copy").assert_done()
    run("definitions", "import", "-", "-V", "copy", "--json", stdin=json.dumps(exported).encode()).assert_done()
    assert run("list", "queues", "-V", "copy", "--columns", "name").assert_done().out == "name\nkept\n"
    run("delete", "vhost", "copy").assert_done()
    run("delete", "queue", "kept").assert_done()


def test_definitions_that_are_not_supported(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    stream = {"vhost": "/", "name": "s", "durable": True, "arguments": {"x-queue-type": "stream"}}
    file.write_text(json.dumps({"queues": [stream, {"vhost": "/", "name": "plain"}]}))
    refused = run("definitions", "import", str(file), "--strict")
    refused.assert_refused("strict import refused, 1 not supported: queue 's' in vhost '/'")
    assert run("list", "queues", "--columns", "name").assert_done().out == "name\n"
    said = run("definitions", "import", str(file)).assert_done().out
    assert said == "imported 2 queues; 1 entries skipped because they are not supported (see the broker's log)\n"
    assert run("definitions", "import", str(file), "--json").assert_done().json["skipped"] == 1
    assert run("list", "queues", "--columns", "name").assert_done().out == "name\nplain\n"
    run("delete", "queue", "plain").assert_done()


def test_definitions_that_are_none(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    run("definitions", "import", str(file)).assert_refused(f"cannot read {file}: No such file", 2)
    file.write_text("{")
    run("definitions", "import", str(file)).assert_refused("holds no JSON", 2)
    file.write_text("[]")
    run("definitions", "import", str(file)).assert_refused("holds no definitions", 2)
    file.write_text('{"queues": [{"name": "q"}]}')
    assert run("definitions", "import", str(file)).code == 1
    run("definitions", "export", "/no/such/folder/file").assert_refused("cannot write", 2)
    run("definitions", "export", "-V", "nope").assert_refused("no vhost 'nope'")


def test_the_log(run: Run) -> None:
    assert "is ready" in run("logs").assert_done().out
    assert len(run("logs", "-n", "1", "--json").assert_done().json) == 1
    run("users", "add", "fay", "pw", "--tags", "management").assert_done()
    run("logs", "-u", "fay", "-p", "pw").assert_refused("Not administrator user")
    run("logs", "--follow", "-u", "fay", "-p", "pw").assert_refused("Not administrator user")
    run("users", "delete", "fay").assert_done()


def test_the_log_is_followed(run: Run, broker: BrokerProcess) -> None:
    url = f"http://127.0.0.1:{broker.management_port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "rabbitlike", "logs", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(RABBITLIKE_URL=url),
        # A shell's background jobs ignore it, and so would what the suite starts there.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with ending(process):
        assert process.stderr.readline().startswith(f"following the log of {url}")
        run("users", "add", "gus", "pw").assert_done()
        run("users", "delete", "gus").assert_done()
        while "gus" not in (line := process.stdout.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(bare: Run, shell: str) -> None:
    assert "_RABBITLIKE_COMPLETE" in bare("completion", shell).assert_done().out
    bare("completion", "cmd").assert_refused("bash", 2)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rabbitlike li", {"list"}),
        ("rabbitlike list que", {"queues"}),
        ("rabbitlike show queue ord", {"orders", "orders.dead"}),
        ("rabbitlike publish x -q orders.", {"orders.dead"}),
        ("rabbitlike show user gu", {"guest"}),
    ],
)
def test_completion(run: Run, broker: BrokerProcess, typed: str, offered: set[str]) -> None:
    """Commands, and the names of what there is."""
    for name in ("orders", "orders.dead"):
        run("declare", "queue", name).assert_done()
    words = {"_RABBITLIKE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    assert set(rabbitlike(broker=broker, **words).stdout.split()) == offered
    for name in ("orders", "orders.dead"):
        run("delete", "queue", name).assert_done()


def test_in_a_shell(broker: BrokerProcess) -> None:
    assert rabbitlike("declare", "queue", "shell", broker=broker).stdout == "queue 'shell' declared\n"
    listed = rabbitlike("list", "queues", "--columns", "name,messages", broker=broker)
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "name   messages\nshell  0\n", "")
    assert rabbitlike("delete", "queue", "shell", broker=broker).returncode == 0
    refused = rabbitlike("delete", "queue", "shell", broker=broker)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "rabbitlike: no queue 'shell' in vhost '/'\n"


def test_trace_on_and_off_leave_the_rest_of_a_vhost_alone(run: Run) -> None:
    """G18"""
    run("declare", "vhost", "traced", "--description", "of mine").assert_done()
    assert "amq.rabbitmq.trace" in run("trace", "on", "-V", "traced").assert_done().out
    shown = run("show", "vhost", "traced", "--json").assert_done().json
    assert (shown["tracing"], shown["description"]) == (True, "of mine")
    assert run("trace", "off", "-V", "traced", "--json").assert_done().json["outcome"] == "untraced"
    shown = run("show", "vhost", "traced", "--json").assert_done().json
    assert (shown["tracing"], shown["description"]) == (False, "of mine")
    run("delete", "vhost", "traced").assert_done()


def test_trace_of_a_message(run: Run) -> None:
    """G18"""
    run("declare", "queue", "followed", "--argument", "x-trace=true").assert_done()
    run("publish", "x", "-q", "followed", "--property", "message_id=m-17").assert_done()
    out = run("trace", "message", "m-17").assert_done().out
    assert "publish" in out
    assert "enqueue" in out
    told = (
        run("trace", "events", "--queue", "followed", "--event", "enqueue", "--last", "60", "--json").assert_done().json
    )
    assert [row["message_id"] for row in told] == ["m-17"]
    run("trace", "message", "m-18").assert_refused(
        "nothing is known of a message 'm-18' lately; --files looks further back"
    )
    run("trace", "message", "m-17", "-V", "nowhere").assert_refused("nowhere")
    run("delete", "queue", "followed").assert_done()

"""Messages from the command line: published one by one and in bulk, got, looked at, moved, watched."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.commands.conftest import Run
from tests.support.broker_process import BrokerProcess


@pytest.fixture(autouse=True)
def queues(run: Run) -> Iterator[None]:
    for name in ("from", "to"):
        run("declare", "queue", name).assert_done()
    yield
    for name in ("from", "to"):
        run("delete", "queue", name).assert_done()


def bodies(run: Run, queue: str) -> list[str]:
    return run("peek", queue, "--raw", "-n", "1000").assert_done().out.splitlines()


def test_a_message_with_everything(run: Run) -> None:
    words = ("-q", "from", "-H", "n=1", "-H", "who=ann", "-P", "correlation_id=7", "-P", "priority=3", "--persistent")
    assert run("publish", "hello", *words, "--content-type", "text/plain").assert_done().out == "published\n"
    (message,) = run("peek", "from", "--json").assert_done().json
    assert message["payload"] == "hello"
    assert message["properties"] == {
        "correlation_id": "7",
        "priority": 3,
        "delivery_mode": 2,
        "headers": {"n": 1, "who": "ann"},
        "content_type": "text/plain",
    }
    row = run("peek", "from").assert_done().out.splitlines()[1]
    assert row.split()[-2:] == ["5", "hello"]
    assert "hello" in run("peek", "from", terminal=True).assert_done().out


def test_bodies_from_standard_input_and_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\x00\xff not text\n")
    run("publish", "-q", "from", stdin=b"one\ntwo\n").assert_done()
    run("publish", "-q", "from", "--file", str(tmp_path / "body")).assert_done()
    messages = run("get", "from", "-n", "5", "--ack", "--json").assert_done().json
    assert [message["payload_encoding"] for message in messages] == ["string", "base64"]
    assert messages[0]["payload"] == "one\ntwo\n"
    ended = run("publish", "-q", "from", "--lines", stdin=b"one\r\ntwo\n\nthree")
    assert ended.assert_done().out == "4 messages published\n"
    assert bodies(run, "from") == ["one", "two", "", "three"]
    run("publish", "-q", "from", "--lines", "-n", "2", "--file", "-", stdin=b"a\nb\n").assert_done()
    assert bodies(run, "from")[4:] == ["a", "b", "a", "b"]


def test_bulk_keeps_the_order(run: Run) -> None:
    lines = b"".join(b"%d\n" % number for number in range(500))
    ended = run("publish", "-q", "from", "--lines", "--json", stdin=lines).assert_done()
    assert ended.json == {"messages": 500, "unrouted": 0, "vhost": "/"}
    assert bodies(run, "from") == [str(number) for number in range(500)]


def test_a_rate_is_kept(run: Run) -> None:
    started = time.monotonic()
    run("publish", "x", "-q", "from", "-n", "11", "--rate", "50").assert_done()
    assert time.monotonic() - started >= 0.2


def test_messages_that_go_nowhere(run: Run) -> None:
    ended = run("publish", "x", "-x", "amq.topic", "-k", "nobody")
    assert (ended.code, ended.out) == (1, "the message reached no queue: nothing is bound for this key\n")
    ended = run("publish", "x", "-x", "amq.topic", "-n", "3")
    assert (ended.code, ended.out) == (1, "3 messages published; 3 of them reached no queue\n")


@pytest.mark.parametrize("count", ["1", "3"])
def test_publishing_is_refused(run: Run, count: str) -> None:
    run("publish", "x", "-x", "amq.topik", "-n", count).assert_refused("exchange")
    run("publish", "x", "-q", "from", "-n", count, "-p", "wrong").assert_refused("wrong user or password")
    run("publish", "x", "-q", "from", "-n", count, "-P", "timestamp=soon").assert_refused("timestamp")
    run("publish", "x", "-q", "from", "-n", count, "--url", "127.0.0.1:1").assert_refused("no broker at", 2)
    assert bodies(run, "from") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["publish", "x", "-q", "from", "-k", "key"], "--queue cannot be combined"),
        (["publish", "x", "-q", "from", "-f", "x"], "give either a body or --file, not both"),
        (["publish", "-q", "from", "-f", "/no/such/file"], "cannot read /no/such/file: No such file"),
        (["publish", "x", "-q", "from", "-H", "n"], "--header 'n': write it as KEY=VALUE"),
        (["get", "from", "--ack-mode", "eat"], "ack_requeue_true"),
        (["move", "from", "--all"], "where to? Give --to a queue, or --to-exchange"),
        (["move", "from", "--to", "to"], "which messages? Give --count, --all, --position or a filter"),
        (["peek", "from", "-H", "n"], "--header 'n': write it as KEY=VALUE"),
        (["tail", "exchange", ""], "tail the queue instead"),
        (["tail", "exchange", "amq.direct"], "nothing is bound to the direct exchange 'amq.direct'"),
    ],
)
def test_mistakes(run: Run, words: list[str], said: str) -> None:
    run(*words).assert_refused(said, 2)


def test_get_puts_back_unless_told_otherwise(run: Run) -> None:
    run("publish", "-q", "from", "--lines", stdin=b"one\ntwo\nthree\n").assert_done()
    first = run("get", "from").assert_done().out.splitlines()[1]
    assert "one" in first
    assert [view["redelivered"] for view in run("get", "from", "-n", "2", "--json").assert_done().json] == [True, False]
    assert run("get", "from", "--ack", "--raw").assert_done().out == "one\n"
    run("get", "from", "--ack-mode", "reject_requeue_false", "--truncate", "2").assert_done()
    assert bodies(run, "from") == ["three"]
    run("get", "form").assert_refused("no queue 'form' in vhost '/'; did you mean 'from'?")
    run("purge", "queue", "from").assert_done()
    empty = run("get", "from", terminal=True).assert_done()
    assert (empty.out, empty.err) == ("", "no message\n")


def test_peek_touches_nothing_and_finds_much(run: Run) -> None:
    run("publish", "-q", "from", "--lines", stdin=b"".join(b"%d\n" % number for number in range(1200))).assert_done()
    run("publish", "special", "-q", "from", "-H", "kind=odd", "-P", "type=order").assert_done()
    for _ in range(2):
        views = run("peek", "from", "-n", "2", "--offset", "700", "--json").assert_done().json
        assert [(view["payload"], view["redelivered"]) for view in views] == [("700", False), ("701", False)]
    assert len(run("peek", "from", "-n", "1100", "--raw").assert_done().out.splitlines()) == 1100
    assert run("peek", "from", "-H", "kind=odd", "-P", "type=order", "--raw").assert_done().out == "special\n"
    assert run("peek", "from", "--text", "119", "--raw", "-n", "3").assert_done().out == "119\n1119\n1190\n"
    assert run("peek", "from", "-k", "other").assert_done().out.count("\n") == 1, "the header alone"
    run("peek", "from", "-P", "colour=red").assert_refused("colour")
    run("peek", "form").assert_refused("did you mean 'from'?")


def test_moving_messages(run: Run) -> None:
    run("publish", "-q", "from", "--lines", stdin=b"".join(b"%d\n" % number for number in range(30))).assert_done()
    assert run("move", "from", "--to", "to", "-n", "2").assert_done().out == "2 messages moved from 'from' to 'to'\n"
    assert bodies(run, "to") == ["0", "1"]
    run("move", "from", "--to", "to", "--text", "29").assert_done()
    position = run("peek", "from", "--json").assert_done().json[0]["position"]
    run("move", "from", "--to", "to", "--position", str(position)).assert_done()
    assert bodies(run, "to") == ["0", "1", "29", "2"]
    run("bind", "amq.topic", "to", "retry").assert_done()
    run("move", "from", "--to-exchange", "amq.topic", "--to-key", "retry", "-n", "1").assert_done()
    assert run("move", "from", "--to", "to", "--all", "--json").assert_done().json["moved"] == 25
    assert bodies(run, "from") == []
    run("move", "from", "--to", "too", "--all").assert_refused("no queue 'too' in vhost '/'; did you mean 'to'")
    run("move", "form", "--to", "to", "--all").assert_refused("did you mean 'from'?")


def test_one_message_is_deleted(run: Run) -> None:
    run("publish", "-q", "from", "--lines", stdin=b"one\ntwo\n").assert_done()
    second = str(run("peek", "from", "--json").assert_done().json[1]["position"])
    run("delete", "message", "from", second).assert_done()
    assert bodies(run, "from") == ["one"]
    run("delete", "message", "from", second).assert_refused(f"no message at position {second} of queue 'from' is ready")
    run("delete", "message", "form", "1").assert_refused("did you mean 'from'?")


def test_a_paused_queue(run: Run) -> None:
    assert "delivers nothing" in run("pause", "from").assert_done().out
    assert run("show", "queue", "from", "--json").assert_done().json["state"] == "paused"
    assert run("resume", "from", "--json").assert_done().json["outcome"] == "resumed"
    assert run("show", "queue", "from", "--json").assert_done().json["state"] == "running"
    run("pause", "form").assert_refused("did you mean 'from'?")


def later(run: Run, *words: str) -> threading.Timer:
    """Run it when the command under test is waiting."""
    timer = threading.Timer(0.5, lambda: _publish(words))
    timer.start()
    return timer


def _publish(words: tuple[str, ...]) -> None:
    import os
    import subprocess
    import sys

    subprocess.run([sys.executable, "-m", "rabbitlike", *words], env=os.environ, check=True, capture_output=True)


def test_tail_of_a_queue(run: Run) -> None:
    run("publish", "old", "-q", "from").assert_done()
    timer = later(run, "publish", "new", "-q", "from", "-P", "priority=5")
    ended = run("tail", "queue", "from", "-n", "1", "--every", "0.1").assert_done()
    timer.join()
    assert ended.out.endswith("(default) from  new\n")
    assert ended.err == "waiting for messages in queue 'from'; Ctrl-C ends it\n"
    assert sorted(bodies(run, "from")) == ["new", "old"], "they stay"
    run("tail", "queue", "form").assert_refused("did you mean 'from'?")


@pytest.mark.parametrize("how", ["--json", "--raw"])
def test_tail_of_an_exchange(run: Run, how: str) -> None:
    run("bind", "amq.direct", "from", "k").assert_done()
    timer = later(run, "publish", "passing", "-x", "amq.direct", "-k", "k")
    ended = run("tail", "exchange", "amq.direct", "-n", "1", "--every", "0.1", how).assert_done()
    timer.join()
    assert ended.out == "passing\n" if how == "--raw" else ended.json["routing_key"] == "k"
    assert bodies(run, "from") == ["passing"], "nothing is taken from anybody"
    assert run("list", "queues", "--columns", "name").assert_done().out == "name\nfrom\nto\n", "ours is gone"


def test_tail_of_an_exchange_keeps_the_order_of_publishing(run: Run, broker: BrokerProcess) -> None:
    """Whatever priorities the messages have: those that come between two looks, too."""
    api = httpx.Client(base_url=f"http://127.0.0.1:{broker.management_port}/api", auth=("guest", "guest"))

    def publish() -> None:
        while not api.get("/exchanges/%2F/amq.fanout/bindings/source").json():
            time.sleep(0.01)
        time.sleep(0.1)  # the first look is over
        for priority in (0, 5, 9, 1):
            body = {"routing_key": "", "payload": f"{priority} ", "payload_encoding": "string"}
            api.post("/exchanges/%2F/amq.fanout/publish", json={**body, "properties": {"priority": priority}})

    thread = threading.Thread(target=publish)
    thread.start()
    ended = run("tail", "exchange", "amq.fanout", "-n", "4", "--every", "1", "--raw").assert_done()
    thread.join()
    api.close()
    assert ended.out.split() == ["0", "5", "9", "1"]


def test_delayed_messages(run: Run) -> None:
    """G10 list and cancel"""
    for name in ("one", "two"):
        run("publish", name, "-q", "from", "-H", "x-delay=600000", "-P", f"message_id={name}").assert_done()
    first, second = run("list", "delayed", "--json").assert_done().json
    assert (first["message_id"], second["message_id"], first["size"]) == ("one", "two", 3)
    assert [row.split()[0] for row in run("list", "delayed").assert_done().out.splitlines()[1:]] == [
        first["id"],
        second["id"],
    ]
    said = run("cancel", "delayed", first["id"]).assert_done().out
    assert said == f"delayed message '{first['id']}' cancelled\n"
    run("cancel", "delayed", "two").assert_done()
    run("cancel", "delayed", "two").assert_refused("no delayed message 'two' is pending")
    assert run("list", "delayed", "--json").assert_done().json == []

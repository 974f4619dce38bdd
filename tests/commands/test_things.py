"""Queues, exchanges, bindings and vhosts: made, listed, shown and taken away, for people, for programs and in error."""

import re
from collections.abc import Iterator

import pika
import pytest

from tests.commands.conftest import Run
from tests.support.broker_process import BrokerProcess


@pytest.fixture(autouse=True)
def vhost(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A vhost of its own for every test, named by the environment."""
    run("declare", "vhost", "things").assert_done()
    run("permissions", "set", "guest", "--vhost", "things").assert_done()
    monkeypatch.setenv("RABBITLIKE_VHOST", "things")
    yield
    run("delete", "vhost", "things").assert_done()


def cells(line: str) -> list[str]:
    return line.split()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_queue_is_declared_listed_shown_and_deleted(run: Run) -> None:
    declared = run(
        "declare", "queue", "orders", "-a", "x-max-length=10", "--arguments", '{"x-overflow": "reject-publish"}'
    )
    assert declared.assert_done().out == "queue 'orders' declared in vhost 'things'\n"
    again = run("declare", "queue", "orders", "-a", "x-max-length=10", "-a", "x-overflow=reject-publish")
    assert again.assert_done().out == "queue 'orders' was there already in vhost 'things'\n"
    header, row = run("list", "queues").assert_done().out.splitlines()
    assert cells(header)[:5] == ["vhost", "name", "type", "state", "ready"]
    assert cells(row)[:5] == ["things", "orders", "classic", "running", "0"]
    shown = run("show", "queue", "orders").assert_done().out
    assert re.search(r'^arguments +\{"x-overflow": "reject-publish", "x-max-length": 10\}$', shown, re.MULTILINE)
    assert run("show", "queue", "orders", "--json").assert_done().json["durable"] is True
    deleted = run("delete", "queue", "orders", "--if-empty", "--if-unused", "--json").assert_done()
    assert deleted.json == {"kind": "queue", "name": "orders", "outcome": "deleted", "vhost": "things"}
    assert run("list", "queues", "--json").assert_done().json == []


def test_kinds_of_queues(run: Run) -> None:
    run("declare", "queue", "q", "--type", "quorum").assert_done()
    run("declare", "queue", "t", "--transient", "--auto-delete").assert_done()
    quorum, transient = run("list", "queues", "--columns", "name,durable,auto_delete,type", "--json").assert_done().json
    assert quorum == {"name": "q", "durable": True, "auto_delete": False, "type": "quorum"}
    assert transient == {"name": "t", "durable": False, "auto_delete": True, "type": "classic"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "queue", "ordes"], "no queue 'ordes' in vhost 'things'; did you mean 'orders'?"),
        (["delete", "queue", "nothing"], "no queue 'nothing' in vhost 'things'"),
        (["purge", "queue", "ordrs"], "did you mean 'orders'?"),
        (["declare", "queue", "orders", "-a", "x-max-length=11"], "inequivalent arg 'x-max-length'"),
        (["declare", "queue", "x", "-a", "x-max-length=many"], "x-max-length"),
        (["declare", "queue", "amq.x"], "user 'guest' may not do this: Access refused"),
        (["declare", "exchange", "x", "--type", "round"], "round"),
        (["list", "queues", "--vhost", "thing"], "no vhost 'thing'; did you mean 'things'?"),
        (["show", "exchange", "amq.topik"], "did you mean 'amq.topic'"),
        (["bind", "amq.topic", "ordes"], "no queue 'ordes' in vhost 'things'; did you mean 'orders'?"),
        (["bind", "amq.topik", "orders"], "no exchange 'amq.topik' in vhost 'things'; did you mean 'amq.topic'"),
        (["unbind", "amq.topic", "orders", "k"], "'orders' is not bound to 'amq.topic' with key 'k'"),
        (["delete", "vhost", "thinks"], "no vhost 'thinks'; did you mean 'things'?"),
        (["show", "connection", "x"], "no connection 'x'"),
        (["show", "user", "gust"], "no user 'gust'; did you mean 'guest'?"),
    ],
)
def test_refusals(run: Run, words: list[str], said: str) -> None:
    run("declare", "queue", "orders", "-a", "x-max-length=10").assert_done()
    run(*words).assert_refused(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["declare", "queue"], "Missing argument 'NAME'"),
        (["declare", "queue", "q", "-a", "x"], "--argument 'x': write it as KEY=VALUE"),
        (["declare", "queue", "q", "--arguments", "{"], "--arguments is not JSON"),
        (["declare", "queue", "q", "--arguments", "[]"], "--arguments must be a JSON object"),
        (["list", "queues", "--colums", "name"], "--columns"),
        (["connections", "close"], "which connections? Give a name, --of-user or --all"),
        (["connections", "close", "x", "--all"], "which connections?"),
    ],
)
def test_mistakes(run: Run, words: list[str], said: str) -> None:
    run(*words).assert_refused(said, 2)


def test_exchanges_and_bindings(run: Run) -> None:
    run("declare", "exchange", "events", "--type", "topic", "--transient").assert_done()
    run("declare", "exchange", "inner", "--internal", "--auto-delete").assert_done()
    run("declare", "queue", "orders").assert_done()
    bound = run("bind", "events", "orders", "a.#").assert_done()
    assert bound.out == "'orders' bound to 'events' with key 'a.#' in vhost 'things'\n"
    assert run("declare", "binding", "events", "inner", "b", "--to-exchange", "--json").assert_done().json == {
        "kind": "binding",
        "vhost": "things",
        "source": "events",
        "destination": "inner",
        "outcome": "bound",
        "routing_key": "b",
        "arguments": {},
    }
    run("bind", "amq.headers", "orders", "-a", "x-match=any", "-a", "n=1").assert_done()
    kept = "source,destination,routing_key"
    rows = run("list", "bindings", "--columns", kept).assert_done().out.splitlines()
    assert [cells(row) for row in rows[1:]] == [
        ["-", "orders", "orders"],
        ["amq.headers", "orders", "-"],
        ["events", "inner", "b"],
        ["events", "orders", "a.#"],
    ]
    run("unbind", "events", "orders", "a.#").assert_done()
    run("delete", "binding", "events", "inner", "b", "--to-exchange").assert_done()
    run("unbind", "amq.headers", "orders").assert_refused("not bound")
    run("unbind", "amq.headers", "orders", "-a", "x-match=any", "-a", "n=1").assert_done()
    assert len(run("list", "bindings", "--json").assert_done().json) == 1
    exchanges = run("list", "exchanges", "--columns", "name,type,durable,internal").assert_done().out
    assert ["events", "topic", "false", "false"] in [cells(line) for line in exchanges.splitlines()]
    run("delete", "exchange", "events", "--if-unused").assert_done()
    assert run("show", "exchange", "--json").assert_done().json["name"] == "", "the default exchange"


def test_vhosts(run: Run) -> None:
    made = run("declare", "vhost", "v1", "--description", "for trying", "--tags", "a,b").assert_done()
    assert made.out == "vhost 'v1' declared\n"
    view = run("show", "vhost", "v1", "--json").assert_done().json
    assert (view["description"], view["tags"]) == ("for trying", ["a", "b"])
    assert run("list", "vhosts", "--vhost", "v1", "--columns", "name,description").code in (0, 1)
    assert run("delete", "vhost", "v1").assert_done().out == "vhost 'v1' deleted\n"


def test_order_and_columns(run: Run) -> None:
    for name, count in (("a", 1), ("b", 12), ("c", 3)):
        run("declare", "queue", name).assert_done()
        run("publish", "x", "-q", name, "-n", str(count)).assert_done()
    rows = run("list", "queues", "--sort", "-messages", "--columns", "name,messages").assert_done().out.splitlines()
    assert rows == ["name  messages", "b     12", "c     3", "a     1"]
    names = [view["name"] for view in run("list", "queues", "--sort", "messages", "--json").assert_done().json]
    assert names == ["a", "c", "b"]
    one = run("list", "queues", "--columns", "name,no.such", "--sort", "-name", "--json").assert_done().json[0]
    assert one == {"name": "c", "no.such": None}


def test_lines_are_not_wrapped_where_there_is_no_terminal(run: Run) -> None:
    name = "q" * 200
    run("declare", "queue", name).assert_done()
    assert len(run("list", "queues").assert_done().out.splitlines()) == 2
    assert f" {name} " in run("list", "queues").out


def test_a_terminal_gets_a_table(run: Run) -> None:
    run("declare", "queue", "orders").assert_done()
    run("publish", "x", "-q", "orders", "-n", "1234").assert_done()
    out = run("list", "queues", terminal=True).assert_done().out
    assert "\x1b[" in out, "in colour"
    header, rule, row = without_colours(out).splitlines()
    assert cells(header)[:7] == ["name", "type", "state", "ready", "unacked", "messages", "consumers"], "no vhost: one"
    assert set(rule.strip()) == {"─"}
    assert "1,234" in row
    assert max(len(line) for line in (header, rule, row)) <= 120
    shown = without_colours(run("show", "queue", "orders", terminal=True).assert_done().out)
    assert re.search(r"^Queue orders", shown)
    assert re.search(r"messages_ready +1,234 *$", shown, re.MULTILINE)


def test_an_empty_list_on_a_terminal(run: Run) -> None:
    ended = run("list", "queues", terminal=True).assert_done()
    assert (ended.out, ended.err) == ("", "no queues in vhost 'things'\n")


def test_all_vhosts_unless_one_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RABBITLIKE_VHOST")
    run("declare", "queue", "here").assert_done()
    run("declare", "queue", "there", "-V", "things").assert_done()
    both = run("list", "queues", "--columns", "vhost,name").assert_done().out.splitlines()
    assert [cells(line) for line in both[1:]] == [["/", "here"], ["things", "there"]]
    one = run("list", "queues", "-V", "things", "--columns", "name").assert_done().out
    assert one == "name\nthere\n"
    assert "vhost" in without_colours(run("list", "queues", terminal=True).out).splitlines()[0]
    run("delete", "queue", "here").assert_done()


@pytest.mark.parametrize(
    "kind",
    "queues exchanges bindings connections channels consumers vhosts users permissions topic-permissions policies "
    "operator-policies parameters global-parameters limits nodes feature-flags".split(),
)
def test_every_list(run: Run, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RABBITLIKE_VHOST")
    assert isinstance(run("list", kind, "--json").assert_done().json, list)
    assert run("list", kind).assert_done().out.endswith("\n")
    run("list", kind, terminal=True).assert_done()


def test_connections_channels_and_consumers(run: Run, broker: BrokerProcess) -> None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.port, "things", client_properties={"connection_name": "worker"}
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("orders", lambda *_: None, consumer_tag="ctag")
    connection.process_data_events(0)
    (view,) = run("list", "connections", "--json").assert_done().json
    assert run("show", "connection", view["name"], "--json").assert_done().json["user"] == "guest"
    assert "worker" in run("connections", "list").assert_done().out
    (chan,) = run("list", "channels", "--json").assert_done().json
    assert (chan["prefetch_count"] or chan["global_prefetch_count"], chan["consumer_count"]) in ((7, 1), (0, 1))
    run("show", "channel", chan["name"]).assert_done()
    row = run("list", "consumers").assert_done().out.splitlines()[1]
    assert cells(row)[:3] == ["things", "orders", "ctag"]
    closed = run("connections", "close", view["name"], "--reason", "moving house").assert_done()
    assert closed.out == f"connection '{view['name']}' closed\n"
    with pytest.raises(pika.exceptions.ConnectionClosed, match="moving house"):
        connection.process_data_events(5)
    assert run("connections", "close", "--all").assert_done().out == "0 connections closed\n"
    run("connections", "close", "gone").assert_refused("no connection 'gone'")


def test_connections_of_a_user(run: Run, broker: BrokerProcess) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, "things"))
    ended = run("connections", "close", "--of-user", "guest", "--json").assert_done()
    assert len(ended.json["names"]) == 1
    with pytest.raises(pika.exceptions.ConnectionClosed, match="closed by an operator"):
        connection.process_data_events(5)

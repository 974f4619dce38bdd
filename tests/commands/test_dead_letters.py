"""`dlq`: dead letters from the command line."""

from collections.abc import Iterator

import pytest

from tests.commands.conftest import Run


@pytest.fixture
def dead(run: Run) -> Iterator[Run]:
    """Three dead letters of the queue `dead`."""
    run("declare", "queue", "dead", "-a", "x-dead-letter-auto=true").assert_done()
    run("publish", "-q", "dead", "--lines", stdin=b"one\ntwo\nthree\n").assert_done()
    run("get", "dead", "-n", "3", "--ack-mode", "reject_requeue_false").assert_done()
    yield run
    for name in ("dead", "dead.dlq"):
        run("delete", "queue", name).assert_done()


def bodies(run: Run, *words: str) -> list[str]:
    return run("dlq", "list", "dead", "--raw", *words).assert_done().out.splitlines()


def test_list(dead: Run) -> None:
    """F11 S7 dead letters are listed and filtered."""
    assert bodies(dead) == ["one", "two", "three"]
    assert bodies(dead, "--text", "t") == ["two", "three"]
    assert bodies(dead, "--reason", "expired") == []
    assert "rejected" in dead("dlq", "list", "dead").assert_done().out
    assert [each["id"] for each in dead("dlq", "list", "dead", "-n", "2", "--json").assert_done().json] == [
        "1-dead.dlq",
        "2-dead.dlq",
    ]
    dead("dlq", "list", "dae").assert_refused("no queue 'dae' in vhost '/'")


def test_retry(dead: Run) -> None:
    """F11 S7 by id, by filter, or all."""
    assert dead("dlq", "retry", "dead", "1-dead.dlq").assert_done().out == "1 messages put back into 'dead'\n"
    again = dead("dlq", "retry", "dead", "1-dead.dlq").assert_done().out
    assert again == "0 messages put back into 'dead'; 1 do not exist, or the queue is full\n"
    assert dead("dlq", "retry", "dead", "--text", "three", "--json").assert_done().json["retried"] == 1
    dead("dlq", "retry", "dead", "--all").assert_done()
    assert dead("get", "dead", "-n", "9", "--raw", "--ack").assert_done().out == "one\nthree\ntwo\n"
    dead("dlq", "retry", "dead").assert_refused("which messages? Give their ids, a filter or --all", 2)


def test_delete_and_purge(dead: Run) -> None:
    assert dead("dlq", "delete", "dead", "2-dead.dlq").assert_done().out == "dead letter '2-dead.dlq' deleted\n"
    dead("dlq", "delete", "dead", "2-dead.dlq").assert_refused("queue 'dead' has no dead-lettered message '2-dead.dlq'")
    assert (
        dead("dlq", "purge", "dead", "--text", "one").assert_done().out
        == "1 dead-lettered messages of 'dead' deleted\n"
    )
    assert dead("dlq", "purge", "dead").assert_done().out == "1 dead-lettered messages of 'dead' deleted\n"
    assert bodies(dead) == []

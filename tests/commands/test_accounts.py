"""Users, permissions, limits, policies and parameters from the command line, and what somebody without rights hears."""

import base64
import hashlib
from collections.abc import Iterator

import pytest

from tests.commands.conftest import Run


@pytest.fixture(autouse=True)
def ann(run: Run) -> Iterator[None]:
    run("users", "add", "ann", "s3cret", "--tags", "management").assert_done()
    yield
    run("delete", "user", "ann").assert_done()


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()[1:]]


def test_users(run: Run) -> None:
    assert run("users", "add", "bob", "pw").assert_done().out == "user 'bob' added\n"
    assert "was there" in run("declare", "user", "bob", "pw2", "--tags", "monitoring,policymaker").assert_done().out
    assert run("whoami", "-u", "bob", "-p", "pw2").assert_done().out.startswith("bob at ")
    assert rows(run("users", "list").assert_done().out) == [
        ["ann", "management"],
        ["bob", "monitoring,policymaker"],
        ["guest", "administrator"],
    ]
    assert run("users", "passwd", "bob", "pw3").assert_done().out == "user 'bob' has a new password\n"
    assert run("whoami", "-u", "bob", "-p", "pw3", "--json").assert_done().json["tags"], "they stay"
    assert run("users", "tags", "bob", "management", "--json").assert_done().json["tags"] == ["management"]
    run("whoami", "-u", "bob", "-p", "pw3").assert_done()
    assert run("users", "tags", "bob").assert_done().out == "user 'bob' has no tags\n"
    run("whoami", "-u", "bob", "-p", "pw3").assert_refused("user 'bob' may not do this: Not management user")
    assert run("users", "delete", "bob").assert_done().out == "user 'bob' deleted\n"
    run("users", "delete", "bob").assert_refused("no user 'bob'")
    run("users", "passwd", "an", "x").assert_refused("no user 'an'; did you mean 'ann'?")
    run("users", "tags", "an", "x").assert_refused("did you mean 'ann'?")


def test_the_new_password_is_not_the_logins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        run("users", "add", "bob", "--password", "pw", "--tags", "management").assert_done().out == "user 'bob' added\n"
    )
    run("whoami", "-u", "bob", "-p", "pw").assert_done()
    run("users", "passwd", "bob", "--password", "pw2").assert_done()
    run("whoami", "-u", "bob", "--password", "pw2").assert_done()
    run("declare", "user", "bob", "--password=pw3", "--tags", "administrator").assert_done()
    # The password of the login: before the command, in the environment, or under a name of its own.
    run("-u", "bob", "--password", "pw3", "users", "passwd", "ann", "--password", "new").assert_done()
    run("users", "passwd", "ann", "--password", "new2", "-u", "bob", "-p", "pw3").assert_done()
    run("users", "passwd", "ann", "new3", "-u", "bob", "--login-password", "pw3").assert_done()
    run("whoami", "-u", "ann", "-p", "new3").assert_done()
    run("users", "passwd", "ann", "x", "-u", "bob", "-p", "wrong").assert_refused("bob")
    monkeypatch.setenv("RABBITLIKE_PASSWORD", "pw3")
    run("users", "passwd", "ann", "--password", "new4", "-u", "bob").assert_done()
    monkeypatch.delenv("RABBITLIKE_PASSWORD")
    run("whoami", "-u", "ann", "-p", "new4").assert_done()
    run("users", "add", "bob", "one", "--password", "two").assert_refused("two new passwords for bob: give one; ", 2)
    run("users", "delete", "bob").assert_done()


def test_a_password_must_come_from_somewhere(run: Run) -> None:
    run("users", "add", "carl").assert_refused("new password of carl is not known: give it with --password", 2)
    run("hash-password").assert_refused("password is not known", 2)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_a_hashed_password(run: Run, algorithm: str) -> None:
    """RabbitMQ's way: four octets of salt, then the digest of salt and password."""
    said = run("hash-password", "open sesame", "--algorithm", algorithm).assert_done().out.strip()
    raw = base64.b64decode(said)
    assert raw[4:] == hashlib.new(algorithm, raw[:4] + b"open sesame").digest()
    if algorithm == "sha256":
        run("users", "add", "dora", "--password-hash", said, "--tags", "management").assert_done()
        run("whoami", "-u", "dora", "-p", "open sesame").assert_done()
        run("users", "delete", "dora").assert_done()


def test_permissions(run: Run) -> None:
    told = "user 'ann' may configure '^a', write '.*' and read '.*'\n"
    assert run("permissions", "set", "ann", "--configure", "^a").assert_done().out == told
    assert ["/", "ann", "^a", ".*", ".*"] in rows(run("list", "permissions").assert_done().out)
    as_ann = ("-u", "ann", "-p", "s3cret")
    run("declare", "queue", "a1", *as_ann).assert_done()
    run("declare", "queue", "b1", *as_ann).assert_refused("user 'ann' may not do this: ")
    run("list", "users", *as_ann).assert_refused("user 'ann' may not do this: Not administrator user")
    run("list", "nodes", *as_ann).assert_refused("user 'ann' may not do this: Not monitor user")
    run("delete", "queue", "a1").assert_done()
    run("declare", "permissions", "ann").assert_done()
    assert run("permissions", "clear", "ann", "--json").assert_done().json["outcome"] == "cleared"
    run("list", "queues", "-V", "/", *as_ann).assert_refused("user 'ann' may not do this: ")
    run("permissions", "set", "an").assert_refused("no user 'an'; did you mean 'ann'?")
    run("permissions", "set", "ann", "-V", "nope").assert_refused("no vhost 'nope'")
    run("permissions", "set", "ann", "--write", "(").assert_refused("(")
    assert run("permissions", "list", "--json").assert_done().json[0]["user"] == "guest"


def test_topic_permissions(run: Run) -> None:
    run("permissions", "set", "ann").assert_done()
    said = run("permissions", "set-topic", "ann", "amq.topic", "--write", "^a").assert_done().out
    assert said == "user 'ann' may publish to 'amq.topic' with keys '^a' and bind with '.*'\n"
    assert rows(run("list", "topic-permissions").assert_done().out) == [["/", "ann", "amq.topic", "^a", ".*"]]
    run("publish", "x", "-x", "amq.topic", "-k", "b", "-u", "ann", "-p", "s3cret").assert_refused("ann")
    run("delete", "topic-permissions", "ann", "amq.topic").assert_done()
    assert run("list", "topic-permissions", "--json").assert_done().json == []


def test_limits(run: Run) -> None:
    run("declare", "vhost", "small").assert_done()
    run("permissions", "set", "guest", "-V", "small").assert_done()
    assert run("declare", "limit", "max-queues", "1", "-V", "small").assert_done().out == (
        "vhost 'small' is limited: max-queues 1\n"
    )
    run("declare", "limit", "max-channels", "5", "--of-user", "ann").assert_done()
    assert rows(run("list", "limits").assert_done().out) == [
        ["user", "ann", "max-channels", "5"],
        ["vhost", "small", "max-queues", "1"],
    ]
    run("declare", "queue", "one", "-V", "small").assert_done()
    run("declare", "queue", "two", "-V", "small").assert_refused("limit")
    run("delete", "limit", "max-queues", "-V", "small").assert_done()
    run("declare", "queue", "two", "-V", "small").assert_done()
    run("delete", "limit", "max-channels", "--of-user", "ann").assert_done()
    run("declare", "limit", "max-cats", "1").assert_refused("there are max-connections and max-queues", 2)
    run("declare", "limit", "max-queues", "1", "--of-user", "ann").assert_refused("max-channels", 2)
    run("delete", "vhost", "small").assert_done()


def test_policies(run: Run) -> None:
    run("declare", "queue", "orders").assert_done()
    definition = '{"max-length": 10, "overflow": "reject-publish"}'
    told = run("policies", "set", "short", "^orders", definition, "--apply-to", "queues", "--priority", "3")
    assert told.assert_done().out == "policy 'short' set\n"
    (view,) = run("list", "policies", "--json").assert_done().json
    assert (view["priority"], view["apply-to"], view["definition"]["max-length"]) == (3, "queues", 10)
    assert run("show", "queue", "orders", "--json").assert_done().json["policy"] == "short"
    assert "orders" in run("policies", "list").assert_done().out
    run("declare", "operator-policy", "cap", ".*", '{"max-length": 5}').assert_done()
    run("policies", "set", "cap2", ".*", '{"max-length": 6}', "--operator", "--apply-to", "queues").assert_done()
    assert len(run("list", "operator-policies", "--json").assert_done().json) == 2
    run("delete", "operator-policy", "cap").assert_done()
    run("policies", "clear", "cap2", "--operator").assert_done()
    run("policies", "set", "p", "^x", '{"max-lenth": 1}').assert_refused("max-lenth")
    run("policies", "set", "p", "^x", "{").assert_refused("DEFINITION is not JSON", 2)
    run("policies", "clear", "shrt").assert_refused("no policy 'shrt' in vhost '/'; did you mean 'short'?")
    assert run("policies", "clear", "short").assert_done().out == "policy 'short' deleted\n"
    run("delete", "queue", "orders").assert_done()


def test_global_parameters(run: Run) -> None:
    run("declare", "global-parameter", "team", '{"name": "logistics"}').assert_done()
    listed = run("list", "global-parameters", "--json").assert_done().json
    assert {"name": "team", "value": {"name": "logistics"}} in listed
    run("declare", "global-parameter", "word", "plain text").assert_done()
    assert "plain text" in run("list", "global-parameters").assert_done().out
    for name in ("team", "word"):
        run("delete", "global-parameter", name).assert_done()
    run("delete", "global-parameter", "word").assert_refused("/api/global-parameters/word")

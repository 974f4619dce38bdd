"""Permissions: what is allowed, and the words of a refusal."""

from collections.abc import Callable

import pytest

from rabbitlike.broker.accounts.permissions import (
    EVERYTHING,
    Access,
    Permission,
    Permissions,
    Resource,
    TopicPermission,
)
from rabbitlike.protocol.errors import AmqpError


@pytest.fixture
def permissions() -> Permissions:
    permissions = Permissions()
    permissions.set("u", "/", Permission(configure="^own-", write="^(own-|shared$|amq\\.default$)", read=""))
    return permissions


@pytest.mark.parametrize(
    ("access", "resource", "name", "text"),
    [
        ("configure", "queue", "q", "configure access to queue 'q' in vhost '/' refused for user 'u'"),
        ("write", "exchange", "x", "write access to exchange 'x' in vhost '/' refused for user 'u'"),
        ("read", "queue", "own-q", "read access to queue 'own-q' in vhost '/' refused for user 'u'"),
        ("read", "exchange", "", "read access to exchange 'amq.default' in vhost '/' refused for user 'u'"),
    ],
)
def test_refusals(permissions: Permissions, access: Access, resource: Resource, name: str, text: str) -> None:
    """#49 #55 #77 403, naming the access that is missing."""
    with pytest.raises(AmqpError) as caught:
        permissions.check("u", "/", access, resource, name)
    assert (caught.value.code, caught.value.text) == (403, text)


def test_what_matches_is_allowed(permissions: Permissions) -> None:
    permissions.check("u", "/", "configure", "queue", "own-q")
    permissions.check("u", "/", "write", "exchange", "shared")


def test_the_default_exchange_has_a_name_for_permissions(permissions: Permissions) -> None:
    """#43 publishing to it needs write on amq.default; a queue without a name is no exchange."""
    permissions.check("u", "/", "write", "exchange", "")
    with pytest.raises(AmqpError):
        permissions.check("u", "/", "write", "queue", "")


def test_an_empty_expression_allows_only_the_empty_name(permissions: Permissions) -> None:
    permissions.check("u", "/", "read", "queue", "")
    with pytest.raises(AmqpError):
        permissions.check("u", "/", "read", "queue", "q")


def test_expressions_are_not_anchored(permissions: Permissions) -> None:
    permissions.set("u", "/", Permission("b", "b", "b"))
    permissions.check("u", "/", "read", "queue", "abc")


def test_strangers_have_no_access(permissions: Permissions) -> None:
    with pytest.raises(AmqpError) as caught:
        permissions.check("u", "other", "write", "queue", "own-q")
    assert caught.value.text == "write access to queue 'own-q' in vhost 'other' refused for user 'u'"


def test_vhost_access(permissions: Permissions) -> None:
    """#36 an entry is enough, whatever it allows; without one it is 530."""
    permissions.set("poor", "/", Permission("", "", ""))
    permissions.check_vhost("poor", "/")
    with pytest.raises(AmqpError) as caught:
        permissions.check_vhost("u", "other")
    assert caught.value.reply_text == "NOT_ALLOWED - access to vhost 'other' refused for user 'u'"


def test_topic_permissions(permissions: Permissions) -> None:
    """#49 #55 they narrow only the exchange they are set for."""
    permissions.set_topic("u", "/", "t", TopicPermission(write="^a\\.", read="^b\\."))
    permissions.check_topic("u", "/", "write", "t", "a.1")
    permissions.check_topic("u", "/", "read", "t", "b.1")
    permissions.check_topic("u", "/", "write", "other", "z")
    permissions.check_topic("v", "/", "write", "t", "z")
    with pytest.raises(AmqpError) as caught:
        permissions.check_topic("u", "/", "write", "t", "b.1")
    assert (caught.value.code, caught.value.text) == (
        403,
        "write access to topic 'b.1' in exchange 't' in vhost '/' refused for user 'u'",
    )


def test_topic_permissions_know_the_connection(permissions: Permissions) -> None:
    """#49 {username} and {vhost} are filled in."""
    permissions.set_topic("u", "v1", "t", TopicPermission(write="^{vhost}\\.{username}\\.", read=""))
    permissions.check_topic("u", "v1", "write", "t", "v1.u.x")
    with pytest.raises(AmqpError):
        permissions.check_topic("u", "v1", "write", "t", "v1.w.x")
    with pytest.raises(AmqpError):
        permissions.check_topic("u", "v1", "read", "t", "v1.u.x")
    assert permissions.get_topic("u", "v1", "t") == TopicPermission(write="^{vhost}\\.{username}\\.", read="")


def test_broken_expressions(permissions: Permissions) -> None:
    with pytest.raises(ValueError, match="invalid regular expression"):
        Permission("(", ".*", ".*")
    with pytest.raises(ValueError, match="invalid regular expression"):
        permissions.set_topic("u", "/", "t", TopicPermission(write="[", read=""))
    assert permissions.get_topic("u", "/", "t") is None


def test_every_change_is_a_new_generation() -> None:
    permissions = Permissions()
    seen = [permissions.generation]
    changes: list[Callable[[], None]] = [
        lambda: permissions.set("u", "/", EVERYTHING),
        lambda: permissions.set_topic("u", "/", "t", TopicPermission(".*", ".*")),
        lambda: permissions.clear_topic("u", "/", "t"),
        lambda: permissions.clear("u", "/"),
    ]
    for change in changes:
        change()
        seen.append(permissions.generation)
    assert seen == sorted(set(seen))


def test_listing_and_clearing() -> None:
    permissions = Permissions()
    topic = TopicPermission("a", "b")
    permissions.set("u", "/", EVERYTHING)
    permissions.set("v", "/", EVERYTHING)
    for user in ("v", "w"):
        for exchange in ("t", "s"):
            permissions.set_topic(user, "/", exchange, topic)
    assert list(permissions) == [("u", "/", EVERYTHING), ("v", "/", EVERYTHING)]
    assert permissions.places() == [("u", "/"), ("v", "/"), ("w", "/")]
    assert permissions.topic_exchanges("v", "/") == ["t", "s"]
    permissions.clear_topic("w", "/")
    assert list(permissions.topics()) == [("v", "/", "t", topic), ("v", "/", "s", topic)]
    permissions.clear_topic("v", "/", "t")
    assert list(permissions.topics()) == [("v", "/", "s", topic)]
    permissions.clear("v", "/")
    assert permissions.get("v", "/") is None

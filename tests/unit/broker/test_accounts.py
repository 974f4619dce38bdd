"""The broker's verbs for vhosts, users, permissions, limits and parameters, and what a restart leaves of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rabbitlike.broker.accounts.login_attempts import MOST_SOURCES, LoginAttempts
from rabbitlike.broker.accounts.permissions import EVERYTHING, Permission, TopicPermission
from rabbitlike.broker.accounts.users import SHA512, hash_password
from rabbitlike.broker.broker import Broker
from rabbitlike.broker.journal import Journal
from rabbitlike.broker.terms import Json, term
from rabbitlike.config import BrokerSettings
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.storage.memory import MemoryStore
from rabbitlike.storage.store import SqliteStore
from rabbitlike.testing import FakeClock


@pytest.fixture
def broker() -> Broker:
    return Broker(BrokerSettings(), MemoryStore(), FakeClock())


async def live(folder: Path, change: Callable[[Broker], object] = lambda _: None) -> Broker:
    """One run of a broker on the data in a folder, from start to stop, with a change in between."""
    store = SqliteStore(folder, "off", log_bytes=1 << 20)
    journal = Journal(lambda: None)
    broker = Broker(BrokerSettings(), store, FakeClock(), journal)
    broker.recover(await store.open())
    change(broker)
    await store.commit(journal.take())
    await store.close()
    return broker


def accounts(broker: Broker) -> dict[str, object]:
    """All there is to know of a broker's accounts."""
    return {
        "vhosts": {
            name: (each.description, each.tags, each.default_queue_type, each.is_protected, each.is_traced, each.limits)
            for name, each in broker.vhosts.items()
        },
        "users": {
            each.name: (each.password_hash, each.hashing_algorithm, each.tags, each.limits) for each in broker.users
        },
        "permissions": sorted((user, vhost, repr(each)) for user, vhost, each in broker.permissions),
        "topics": sorted((*key, repr(each)) for *key, each in broker.permissions.topics()),
        "parameters": sorted(broker.parameters, key=repr),
        "globals": dict(sorted(broker.parameters.globals.items())),
    }


def furnish(broker: Broker) -> None:
    broker.set_vhost(
        "v", description="für später", tags=["a", "b"], default_queue_type="quorum", is_protected=True, is_traced=True
    )
    broker.set_vhost("w")
    broker.set_vhost("v", description="changed")
    broker.set_user("bob", password="pw", tags=["management", "audit"], limits={"max-channels": 5})
    broker.set_user("sha", password_hash=hash_password("pw", SHA512), hashing_algorithm=SHA512)
    broker.set_permission("bob", "v", Permission("^b", ".*", ""))
    broker.set_permission("bob", "w", EVERYTHING)
    broker.set_topic_permission("bob", "v", "amq.topic", TopicPermission("^a", "^{username}"))
    broker.set_topic_permission("bob", "v", "t", TopicPermission("", ".*"))
    broker.set_vhost_limits("v", {"max-connections": 10, "max-queues": 0})
    broker.set_user_limits("sha", {"max-connections": -1})
    broker.set_global_parameter("mqtt_port_to_vhost_mapping", {"1883": "v"})
    broker.set_global_parameter("gone", 1)
    broker.clear_global_parameter("gone")


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    before = await live(tmp_path, furnish)
    after = await live(tmp_path)
    assert accounts(after) == accounts(before)
    assert after.vhosts["v"].limits == {"max-connections": 10, "max-queues": 0}
    assert after.users.authenticate("bob", "pw") is not None
    assert after.users.authenticate("sha", "pw") is not None
    assert after.permissions.has_topic("bob", "v", "amq.topic")


async def test_what_was_deleted_stays_deleted(tmp_path: Path) -> None:
    """And leaves nothing behind that would hold for another of the same name."""
    fresh = accounts(await live(tmp_path))

    def empty(broker: Broker) -> None:
        vhost = broker.vhosts["v"]
        vhost.declare_exchange("t", "topic", durable=True)
        vhost.declare_exchange("u", "fanout", durable=True)
        vhost.bind("t", vhost.exchange("u"), "key")
        vhost.bind("u", vhost.declare_queue("q", durable=True, arguments=None), "")
        broker.set_vhost("v", is_protected=False)
        for name in ("v", "w"):
            assert broker.delete_vhost(name)
        for name in ("bob", "sha"):
            assert broker.delete_user(name)
        broker.clear_global_parameter("mqtt_port_to_vhost_mapping")

    await live(tmp_path, furnish)
    await live(tmp_path, lambda broker: broker.set_vhost_limits("v", {"max-connections": 1}))
    await live(tmp_path, empty)
    assert accounts(await live(tmp_path)) == fresh

    def again(broker: Broker) -> None:
        broker.set_vhost("v")
        broker.set_user("bob", password="pw")
        assert broker.vhosts["v"].limits == {}
        assert broker.vhosts["v"].queues == {}
        assert "t" not in broker.vhosts["v"].exchanges
        assert not broker.permissions.has_topic("bob", "v", "t")

    await live(tmp_path, again)


async def test_the_default_user_does_not_come_back(tmp_path: Path) -> None:
    """Whoever deletes the last vhost, or the default user, does not get guest with its known password again."""
    await live(tmp_path, lambda broker: broker.set_user("root", password="secret", tags=["administrator"]))
    await live(tmp_path, lambda broker: (broker.delete_vhost("/"), broker.delete_user("guest")))
    broker = await live(tmp_path)
    assert [user.name for user in broker.users] == ["root"]
    assert not broker.vhosts


def test_a_protected_vhost(broker: Broker) -> None:
    broker.set_vhost("/", is_protected=True)
    with pytest.raises(AmqpError, match="Refusing to delete virtual host '/' because it is protected from deletion"):
        broker.delete_vhost("/")
    broker.set_vhost("/", is_protected=False)
    assert broker.delete_vhost("/")
    assert not broker.delete_vhost("/")


def test_what_is_not_said_of_a_vhost_stays(broker: Broker) -> None:
    assert broker.set_vhost("v", description="d", tags=["t"], default_queue_type="rabbit_quorum_queue")
    assert not broker.set_vhost("v", is_traced=True)
    vhost = broker.vhosts["v"]
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == ("d", ("t",), "quorum")
    with pytest.raises(ValueError, match=r"^nope is not a valid queue type$"):
        broker.set_vhost("other", default_queue_type="nope")
    assert "other" not in broker.vhosts


def test_users(broker: Broker) -> None:
    assert broker.set_user("u", password="one", limits={"max-connections": 1})
    assert not broker.set_user("u", password_hash=hash_password("two"), tags=["x"], limits={"max-channels": 2})
    user = broker.users.authenticate("u", "two")
    assert user is not None
    assert (user.tags, user.limits) == (("x",), {"max-connections": 1, "max-channels": 2})
    with pytest.raises(ValueError, match="both_password_and_password_hash_are_provided"):
        broker.set_user("u", password="one", password_hash="")
    broker.set_user("u", tags=["y"])
    assert broker.users.authenticate("u", "two") is None
    with pytest.raises(ValueError, match="no_such_user"):
        broker.set_user_limits("nobody", {})


def test_new_passwords_can_be_hashed_with_sha512() -> None:
    broker = Broker(BrokerSettings(password_hashing="sha512"), MemoryStore(), FakeClock())
    broker.set_user("u", password="pw")
    assert {user.hashing_algorithm for user in broker.users} == {SHA512}
    assert broker.users.authenticate("u", "pw") is not None


def test_permissions_need_both_ends(broker: Broker) -> None:
    for user, vhost in (("nobody", "/"), ("guest", "nowhere")):
        with pytest.raises(ValueError, match="vhost_or_user_not_found"):
            broker.set_permission(user, vhost, EVERYTHING)
        with pytest.raises(ValueError, match="vhost_or_user_not_found"):
            broker.set_topic_permission(user, vhost, "t", TopicPermission("", ""))
    assert not broker.set_permission("guest", "/", EVERYTHING)
    assert broker.set_topic_permission("guest", "/", "t", TopicPermission("", ""))
    assert not broker.set_topic_permission("guest", "/", "t", TopicPermission("a", ""))
    assert not broker.clear_topic_permission("guest", "/", "s")
    assert broker.clear_topic_permission("guest", "/")
    assert broker.clear_permission("guest", "/")
    assert not broker.clear_permission("guest", "/")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"max-queues": "1"}, 'max-queues should be a number, actually was <<"1">>'),
        ({"max-queues": True}, "max-queues should be a number, actually was true"),
        ({"max-connections": 1.5}, "max-connections should be a number, actually was 1.5"),
        ({"max-lines": 1}, 'Unrecognised terms [{<<"max-lines">>,1}] in limits'),
        (["max-queues"], 'limits not a list [<<"max-queues">>]'),
    ],
)
def test_limits_that_are_none(broker: Broker, limits: Json, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        broker.set_parameter("/", "vhost-limits", "limits", limits)
    assert str(caught.value) == f"Validation failed\n\n{text}\n"
    assert broker.vhosts["/"].limits == {}


def test_limits_of_users_that_are_none(broker: Broker) -> None:
    with pytest.raises(ValueError, match=r'^Unrecognised terms \[{<<"max-queues">>,1}\] in user-limits$'):
        broker.set_user_limits("guest", {"max-queues": 1})
    with pytest.raises(ValueError, match=r"^max-channels should be a number, actually was null$"):
        broker.set_user("new", limits={"max-channels": None})
    assert "new" not in broker.users


class Shelf:
    """A component that takes numbers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Json]] = []

    def faults(self, name: str, value: Json) -> list[str]:
        return [] if isinstance(value, int) else [f"{name} is {term(value)}", "and more"]

    def changed(self, vhost: str, name: str, value: Json) -> None:
        self.seen.append((vhost, name, value))


def test_parameters_of_a_component(broker: Broker) -> None:
    shelf = Shelf()
    broker.parameters.register("shelf", shelf)
    broker.set_vhost("v")
    assert broker.set_parameter("v", "shelf", "a", 1)
    assert not broker.set_parameter("v", "shelf", "a", 2)
    with pytest.raises(ValueError) as caught:
        broker.set_parameter("v", "shelf", "a", {"x": [None]})
    assert str(caught.value) == 'Validation failed\n\na is #{<<"x">> => [null]}\nand more\n'
    assert [tuple(each) for each in broker.parameters] == [("v", "shelf", "a", 2)]
    broker.delete_vhost("v")
    assert list(broker.parameters) == []
    assert shelf.seen == [("v", "a", 1), ("v", "a", 2), ("v", "a", None)]
    assert not broker.clear_parameter("v", "shelf", "a")


@pytest.mark.parametrize(
    ("vhost", "component", "text"),
    [
        ("/", "shovel", "Validation failed\n\ncomponent shovel not found\n"),
        ("/", "policy", "policies may not be set using this method"),
        ("nowhere", "vhost-limits", "vhost_not_found"),
    ],
)
def test_parameters_nobody_takes(broker: Broker, vhost: str, component: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        broker.set_parameter(vhost, component, "limits", {})
    assert str(caught.value) == text


def test_login_attempts_are_bounded() -> None:
    attempts = LoginAttempts(tracks_sources=True)
    for number in range(MOST_SOURCES + 2):
        attempts.count("http", "10.0.0.1", f"user {number}", succeeded=False)
    attempts.count("http", "10.0.0.1", "user 2", succeeded=True)
    found = list(attempts.sources())
    assert len(found) == MOST_SOURCES
    assert (found[0].username, found[0].succeeded, found[0].failed) == ("user 2", 1, 1)
    (total,) = attempts.totals()
    assert (total.succeeded, total.failed) == (1, MOST_SOURCES + 2)
    attempts.reset()
    assert not list(attempts.totals())
    assert not list(attempts.sources())

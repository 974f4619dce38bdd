"""Limits of vhosts, users and the node, as a client runs into them."""

import pytest
from pamqp import commands

from tests.support.pair import Client, Pair


def refused(pair: Pair, user: str = "guest", password: str = "guest", vhost: str = "/") -> Client:
    """A client that was told no after connection.open, and has not read why."""
    client = pair.dial()
    client.login(user, password)
    client.tune()
    client.send(commands.Connection.Open(vhost))
    return client


def test_connections_of_a_vhost(pair: Pair) -> None:
    pair.broker.set_vhost_limits("/", {"max-connections": 1})
    first = pair.connect()
    refused(pair).expect_close(
        530,
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached",
        commands.Connection.Open,
    )
    first.expect_alive()
    first.close()
    pair.connect().expect_alive()


def test_a_vhost_closed_to_new_connections(pair: Pair) -> None:
    """Zero lets nobody in; whoever is there already stays."""
    early = pair.connect()
    pair.broker.set_vhost_limits("/", {"max-connections": 0})
    refused(pair).expect_close(
        530,
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (0) is reached",
        commands.Connection.Open,
    )
    early.channel().declare("q")


@pytest.mark.parametrize("limits", [{"max-connections": -1}, {"max-connections": -7, "max-queues": -1}, {}])
def test_negative_limits_are_none(pair: Pair, limits: dict[str, int]) -> None:
    pair.broker.set_vhost_limits("/", limits)
    pair.broker.set_user_limits("guest", dict.fromkeys(("max-connections", "max-channels"), -1))
    for _ in range(3):
        pair.connect().channel().declare("", exclusive=True)


def test_connections_of_a_user(pair: Pair) -> None:
    pair.add_user("bob", "pw")
    pair.broker.set_user_limits("bob", {"max-connections": 2})
    first, second = pair.connect("bob", "pw"), pair.connect("bob", "pw")
    refused(pair, "bob", "pw").expect_close(
        530,
        "NOT_ALLOWED - connection refused for user 'bob': user connection limit (2) is reached",
        commands.Connection.Open,
    )
    pair.connect().expect_alive()
    first.drop()
    third = pair.connect("bob", "pw")
    for client in (second, third):
        client.expect_alive()


def test_the_vhosts_limit_is_told_before_the_users_and_before_permissions(pair: Pair) -> None:
    pair.add_user("bob", "pw", vhost=None)
    pair.broker.set_user_limits("bob", {"max-connections": 0})
    pair.broker.set_vhost_limits("/", {"max-connections": 0})
    text = "NOT_ALLOWED - access to vhost '/' refused for user 'bob': connection limit (0) is reached"
    refused(pair, "bob", "pw").expect_close(530, text, commands.Connection.Open)
    pair.broker.set_vhost_limits("/", {})
    text = "NOT_ALLOWED - connection refused for user 'bob': user connection limit (0) is reached"
    refused(pair, "bob", "pw").expect_close(530, text, commands.Connection.Open)
    pair.broker.set_user_limits("bob", {})
    text = "NOT_ALLOWED - access to vhost '/' refused for user 'bob'"
    refused(pair, "bob", "pw").expect_close(530, text, commands.Connection.Open)


def test_channels_of_a_user(pair: Pair) -> None:
    """They are counted over all connections, and the one that asks for too many loses its connection."""
    pair.add_user("bob", "pw")
    pair.broker.set_user_limits("bob", {"max-channels": 2})
    one, other = pair.connect("bob", "pw"), pair.connect("bob", "pw")
    one.channel()
    spent = other.channel()
    other.send(commands.Channel.Open(), 7)
    other.expect_close(
        530,
        "NOT_ALLOWED - number of channels opened for user 'bob' has reached the maximum allowed user limit of 2",
        None,
    )
    del spent
    again = pair.connect("bob", "pw").channel()
    again.close()
    one.channel()


def test_a_channel_the_broker_closed_is_free_at_once(pair: Pair) -> None:
    """Also while its close-ok is still to come; and it is not counted down twice when the connection goes."""
    pair.broker.set_user_limits("guest", {"max-channels": 1})
    client = pair.connect()
    failed = client.channel(1)
    failed.send(commands.Queue.Declare(queue="missing", passive=True))
    assert pair.broker.usage.channels_of("guest") == 0
    client.send(commands.Channel.Open(), 2)
    client.expect(commands.Channel.OpenOk, 2)
    client.drop()
    assert pair.broker.usage.channels_of("guest") == 0
    assert pair.broker.usage.connections_of("guest") == 0


def test_queues_of_a_vhost(pair: Pair) -> None:
    pair.broker.set_vhost_limits("/", {"max-queues": 1})
    ch = pair.connect().channel()
    ch.declare("one")
    ch.declare("one")
    ch.send(commands.Queue.Declare(queue="two"))
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '/' (1) is reached",
        commands.Queue.Declare,
    )


def test_connections_of_the_node() -> None:
    """The client is told, not dropped."""
    pair = Pair(connection_max=1)
    pair.connect()
    text = "NOT_ALLOWED - connection refused: node connection limit (1) is reached"
    refused(pair).expect_close(530, text, commands.Connection.Open)


def test_nothing_is_left_counted(pair: Pair) -> None:
    for end in ("close", "drop"):
        client = pair.connect()
        client.channel()
        client.channel()
        getattr(client, end)()
    pair.dial().drop()
    refused(pair, vhost="missing").drop()
    usage = pair.broker.usage
    assert (usage.connections_in("/"), usage.connections_of("guest"), usage.channels_of("guest")) == (0, 0, 0)

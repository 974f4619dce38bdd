"""What changes of users, permissions and vhosts do to clients that are connected."""

from pamqp import commands

from rabbitlike.broker.accounts.permissions import Permission
from tests.support.pair import Pair


def test_a_deleted_user_is_told_to_go(pair: Pair) -> None:
    pair.add_user("bob", "pw")
    bob, guest = pair.connect("bob", "pw"), pair.connect()
    assert pair.broker.delete_user("bob")
    bob.expect_close(320, "CONNECTION_FORCED - user 'bob' is deleted", None)
    guest.expect_alive()
    assert not pair.broker.delete_user("bob")


def test_a_deleted_vhosts_clients_are_told_to_go(pair: Pair) -> None:
    pair.broker.set_vhost("v")
    pair.add_user("bob", "pw", vhost="v")
    bob, guest = pair.connect("bob", "pw", "v"), pair.connect()
    bob.channel().declare("q", durable=True)
    assert pair.broker.delete_vhost("v")
    bob.expect_close(320, "CONNECTION_FORCED - vhost 'v' is deleted", None)
    guest.expect_alive()
    assert pair.broker.usage.connections_in("v") == 0


def test_a_new_password_drops_nobody(pair: Pair) -> None:
    pair.add_user("bob", "pw")
    bob = pair.connect("bob", "pw")
    pair.broker.set_user("bob", password="other")
    bob.channel().declare("q")
    pair.connect("bob", "other").expect_alive()


def test_tags_are_those_of_the_login(pair: Pair) -> None:
    """parity: who has become an impersonator is one from its next login on; who was one stays it until then."""
    pair.add_user("bob", "pw")
    before = pair.connect("bob", "pw").channel()
    before.declare("q")
    pair.broker.set_user("bob", password="pw", tags=["impersonator"])
    after = pair.connect("bob", "pw").channel()
    after.publish(b"as guest", key="q", user_id="guest")
    before.publish(b"as guest", key="q", user_id="guest")
    before.expect_close(
        406,
        "PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was 'bob'",
        commands.Basic.Publish,
    )
    assert after.drain("q") == [b"as guest"]


def test_permissions_change_under_open_channels(pair: Pair) -> None:
    pair.add_user("bob", "pw")
    ch = pair.connect("bob", "pw").channel()
    ch.declare("q")
    ch.publish(b"one", key="q")
    pair.broker.set_permission("bob", "/", Permission(configure=".*", write="^other$", read=".*"))
    ch.publish(b"two", key="q")
    ch.expect_close(
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'bob'",
        commands.Basic.Publish,
    )
    assert pair.broker.clear_permission("bob", "/")
    again = pair.clients[-1].channel()
    again.send(commands.Queue.Declare(queue="mine"))
    again.expect_close(
        403,
        "ACCESS_REFUSED - configure access to queue 'mine' in vhost '/' refused for user 'bob'",
        commands.Queue.Declare,
    )


def test_the_default_queue_type(pair: Pair) -> None:
    """Queues that can be quorum queues are; the others stay classic, and say so."""
    pair.broker.set_vhost("/", default_queue_type="quorum")
    ch = pair.connect().channel()
    ch.declare("lasting", durable=True)
    ch.declare("lasting", durable=True)
    ch.declare("transient")
    ch.declare("exclusive", durable=True, exclusive=True)
    ch.declare("leaving", durable=True, auto_delete=True)
    ch.declare("said", durable=True, arguments={"x-queue-type": "classic"})
    queues = pair.broker.vhosts["/"].queues
    assert {name: queue.settings.queue_type for name, queue in queues.items()} == {
        "lasting": "quorum",
        "transient": "classic",
        "exclusive": "classic",
        "leaving": "classic",
        "said": "classic",
    }
    assert {queue.arguments["x-queue-type"] for queue in queues.values()} == {"quorum", "classic"}


def test_a_default_queue_type_set_later_meets_older_queues(pair: Pair) -> None:
    """parity: the redeclaration now asks for another type than the queue has."""
    ch = pair.connect().channel()
    ch.declare("old", durable=True)
    pair.broker.set_vhost("/", default_queue_type="quorum")
    ch.send(commands.Queue.Declare(queue="old", durable=True))
    ch.expect_close(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'old' in vhost '/': "
        "received the value 'quorum' of type 'longstr' but current is none",
        commands.Queue.Declare,
    )

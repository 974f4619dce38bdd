"""Users × operations × both doors: whoever may do a thing over AMQP may do it over HTTP, and nobody else.

The verdicts expected here are RabbitMQ's: some of the users are tried on a real one as well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, Final
from uuid import uuid4

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from interop.management.doors import Doors

RIGHTS: Final = ("configure", "write", "read")
SUBSETS: Final = [*chain.from_iterable(combinations(RIGHTS, size) for size in range(4))]
TAGS: Final = ("", "management", "policymaker", "monitoring", "administrator")
PASSWORD: Final = "opensesame"
MINE, OTHER = "mine", "other"
MESSAGE: Final = {"properties": {}, "payload": "x", "payload_encoding": "string"}
TAKE: Final = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


@dataclass(frozen=True)
class Operation:
    """One thing to do to objects whose names begin with `of`, through either door."""

    name: str
    needs: tuple[str, ...]
    amqp: Callable[[BlockingChannel, str], object]
    method: str
    path: str  # below the vhost; `{of}` is where the name begins
    body: dict[str, Any] | None = None


OPERATIONS: Final = (
    Operation(
        "declare a queue", ("configure",), lambda c, of: c.queue_declare(f"{of}-new"), "PUT", "queues/{v}/{of}-new", {}
    ),
    Operation(
        "declare a queue with a dead-letter exchange",
        ("configure", "write", "read"),
        lambda c, of: c.queue_declare(f"{of}-dlx", arguments={"x-dead-letter-exchange": f"{of}-x"}),
        "PUT",
        "queues/{v}/{of}-dlx",
        {"arguments": {"x-dead-letter-exchange": "{of}-x"}},
    ),
    Operation(
        "delete a queue", ("configure",), lambda c, of: c.queue_delete(f"{of}-old"), "DELETE", "queues/{v}/{of}-old"
    ),
    Operation(
        "declare an exchange",
        ("configure",),
        lambda c, of: c.exchange_declare(f"{of}-newx", "direct"),
        "PUT",
        "exchanges/{v}/{of}-newx",
        {"type": "direct", "durable": False},
    ),
    Operation(
        "declare an exchange with an alternate",
        ("configure", "write", "read"),
        lambda c, of: c.exchange_declare(f"{of}-ae", "direct", arguments={"alternate-exchange": f"{of}-x"}),
        "PUT",
        "exchanges/{v}/{of}-ae",
        {"type": "direct", "durable": False, "arguments": {"alternate-exchange": "{of}-x"}},
    ),
    Operation(
        "delete an exchange",
        ("configure",),
        lambda c, of: c.exchange_delete(f"{of}-oldx"),
        "DELETE",
        "exchanges/{v}/{of}-oldx",
    ),
    Operation(
        "bind a queue",
        ("write", "read"),
        lambda c, of: c.queue_bind(f"{of}-q", f"{of}-x", "k"),
        "POST",
        "bindings/{v}/e/{of}-x/q/{of}-q",
        {"routing_key": "k"},
    ),
    Operation(
        "unbind a queue",
        ("write", "read"),
        lambda c, of: c.queue_unbind(f"{of}-q", f"{of}-x", "bound"),
        "DELETE",
        "bindings/{v}/e/{of}-x/q/{of}-q/bound",
    ),
    Operation(
        "bind an exchange",
        ("write", "read"),
        lambda c, of: c.exchange_bind(f"{of}-y", f"{of}-x", "k"),
        "POST",
        "bindings/{v}/e/{of}-x/e/{of}-y",
        {"routing_key": "k"},
    ),
    Operation(
        "publish",
        ("write",),
        lambda c, of: _publish(c, f"{of}-x"),
        "POST",
        "exchanges/{v}/{of}-x/publish",
        MESSAGE | {"routing_key": "bound"},
    ),
    Operation("get", ("read",), lambda c, of: c.basic_get(f"{of}-q"), "POST", "queues/{v}/{of}-q/get", TAKE),
    Operation("purge", ("read",), lambda c, of: c.queue_purge(f"{of}-q"), "DELETE", "queues/{v}/{of}-q/contents"),
)


def _publish(channel: BlockingChannel, exchange: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish(exchange, "bound", b"x")


@dataclass(frozen=True)
class User:
    doors: Doors
    vhost: str
    name: str

    @property
    def auth(self) -> tuple[str, str]:
        return self.name, PASSWORD

    def over_amqp(self, connection: BlockingConnection, operation: Operation, of: str) -> str:
        channel = connection.channel()
        try:
            operation.amqp(channel, of)
        except pika.exceptions.ChannelClosedByBroker as closed:
            return "refused" if closed.reply_code == 403 else str(closed)
        channel.close()
        return "done"

    def over_http(self, operation: Operation, of: str) -> str:
        path = "/" + operation.path.format(v=self.vhost, of=of)
        body = operation.body
        if body is not None and "arguments" in body:
            body = body | {"arguments": {key: value.format(of=of) for key, value in body["arguments"].items()}}
        answer = self.doors.ask(path, operation.method, body, auth=self.auth)
        if answer.status_code == 401 and answer.json()["error"] == "not_authorised":
            return "refused"
        # What RabbitMQ does through an AMQP channel of its own is refused as that channel was.
        if answer.status_code == 400 and answer.json()["reason"].startswith("403 ACCESS_REFUSED"):
            return "refused"
        assert answer.is_success, f"{operation.name}: {answer.status_code} {answer.text}"
        return "done"


Make = Callable[..., User]


def _maker(doors: Doors) -> Iterator[Make]:
    made: list[User] = []

    def make(tags: str, **rights: str) -> User:
        user = User(doors, f"pm-{uuid4().hex[:8]}", f"pm-{uuid4().hex[:8]}")
        made.append(user)
        doors.do("PUT", f"/vhosts/{user.vhost}", {})
        doors.do("PUT", f"/users/{user.name}", {"password": PASSWORD, "tags": tags})
        everything = dict.fromkeys(RIGHTS, ".*")
        doors.do("PUT", f"/permissions/{user.vhost}/guest", everything)
        if rights:
            doors.do("PUT", f"/permissions/{user.vhost}/{user.name}", rights)
        return user

    yield make
    for user in made:
        doors.do("DELETE", f"/users/{user.name}")
        doors.do("DELETE", f"/vhosts/{user.vhost}")


@pytest.fixture
def make(ours: Doors) -> Iterator[Make]:
    yield from _maker(ours)


@pytest.fixture
def make_there(theirs: Doors) -> Iterator[Make]:
    yield from _maker(theirs)


def _prepare(user: User, *prefixes: str) -> None:
    """What the operations need: exchanges x, y, oldx; queues q, old; one binding."""
    with user.doors.connect(vhost=user.vhost) as connection:
        channel = connection.channel()
        for of in prefixes:
            for exchange in ("x", "y", "oldx"):
                channel.exchange_declare(f"{of}-{exchange}", "direct")
            for queue in ("q", "old"):
                channel.queue_declare(f"{of}-{queue}")
            channel.queue_bind(f"{of}-q", f"{of}-x", "bound")


def _verdicts(user: User, rights: tuple[str, ...], has_tag: bool) -> None:
    """Every operation through both doors, on objects the user has rights on and on others."""
    of_amqp, of_http = f"{MINE}-a", f"{MINE}-h"
    _prepare(user, of_amqp, of_http, OTHER)
    with user.doors.connect(vhost=user.vhost, auth=user.auth) as connection:
        for operation in OPERATIONS:
            expected = "done" if set(operation.needs) <= set(rights) else "refused"
            assert user.over_amqp(connection, operation, of_amqp) == expected, f"AMQP: {operation.name}"
            over_http = expected if has_tag else "refused"
            assert user.over_http(operation, of_http) == over_http, f"HTTP: {operation.name}"
            assert user.over_amqp(connection, operation, OTHER) == "refused", f"AMQP: {operation.name}, others'"
            assert user.over_http(operation, OTHER) == "refused", f"HTTP: {operation.name}, others'"


def _granted(rights: tuple[str, ...]) -> dict[str, str]:
    return {right: f"^{MINE}-" if right in rights else "" for right in RIGHTS}


@pytest.mark.parametrize("tags", TAGS)
@pytest.mark.parametrize("rights", SUBSETS, ids=lambda rights: "+".join(rights) or "none")
def test_same_verdict_at_both_doors(make: Make, rights: tuple[str, ...], tags: str) -> None:
    _verdicts(make(tags, **_granted(rights)), rights, bool(tags))


@pytest.mark.parametrize(("rights", "tags"), [*zip(SUBSETS, (*TAGS, *TAGS), strict=False)])
def test_the_same_on_rabbitmq(make_there: Make, rights: tuple[str, ...], tags: str) -> None:
    _verdicts(make_there(tags, **_granted(rights)), rights, bool(tags))


def _binds_by_halves(make: Make) -> None:
    """To bind is to write to the destination and to read from the source, not the other way round."""
    bind = next(operation for operation in OPERATIONS if operation.name == "bind a queue")
    for rights, expected in (
        ({"configure": "", "write": "-q$", "read": "-x$"}, "done"),
        ({"configure": "", "write": "-x$", "read": "-q$"}, "refused"),
    ):
        user = make("management", **rights)
        _prepare(user, "a", "h")
        with user.doors.connect(vhost=user.vhost, auth=user.auth) as connection:
            assert user.over_amqp(connection, bind, "a") == expected
        assert user.over_http(bind, "h") == expected


def test_binding_needs_both_halves(make: Make) -> None:
    _binds_by_halves(make)


def test_binding_needs_both_halves_on_rabbitmq(make_there: Make) -> None:
    _binds_by_halves(make_there)


def _topics(make: Make) -> None:
    """A topic permission narrows what may be published and bound, by routing key."""
    user = make("management", configure=".*", write=".*", read=".*")
    user.doors.do(
        "PUT",
        f"/topic-permissions/{user.vhost}/{user.name}",
        {"exchange": "amq.topic", "write": "^w", "read": "^{username}"},
    )
    user.doors.do("PUT", f"/queues/{user.vhost}/q", {})

    def publish(exchange: str, key: str) -> tuple[str, str]:
        operation = Operation(
            "publish",
            (),
            lambda channel, _: (channel.confirm_delivery(), channel.basic_publish(exchange, key, b"x")),
            "POST",
            f"exchanges/{{v}}/{exchange}/publish",
            MESSAGE | {"routing_key": key},
        )
        return both(operation)

    def bind(key: str) -> tuple[str, str]:
        operation = Operation(
            "bind",
            (),
            lambda channel, _: channel.queue_bind("q", "amq.topic", key),
            "POST",
            "bindings/{v}/e/amq.topic/q/q",
            {"routing_key": key},
        )
        return both(operation)

    def both(operation: Operation) -> tuple[str, str]:
        return user.over_amqp(connection, operation, ""), user.over_http(operation, "")

    with user.doors.connect(vhost=user.vhost, auth=user.auth) as connection:
        assert publish("amq.topic", "w.1") == ("done", "done")
        assert publish("amq.topic", "r.1") == ("refused", "refused")
        assert publish("amq.direct", "r.1") == ("done", "done")
        assert bind(f"{user.name}.#") == ("done", "done")
        assert bind("w.1") == ("refused", "refused")


def test_topic_permissions(make: Make) -> None:
    _topics(make)


def test_topic_permissions_on_rabbitmq(make_there: Make) -> None:
    _topics(make_there)


def _strangers(make: Make) -> None:
    """Without a permission in a vhost: no connection, no look."""
    user = make("monitoring")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"\(530\) .NOT_ALLOWED - access to vhost"):
        user.doors.connect(vhost=user.vhost, auth=user.auth)
    assert user.doors.ask(f"/queues/{user.vhost}", auth=user.auth).status_code == 401
    assert user.doors.ask(f"/queues/{user.vhost}/q", "PUT", {}, auth=user.auth).status_code == 401
    # A monitor sees every vhost in lists all the same.
    vhosts: Any = user.doors.get("/vhosts", auth=user.auth)
    assert user.vhost in [vhost["name"] for vhost in vhosts]


def test_no_permission_no_entry(make: Make) -> None:
    _strangers(make)


def test_no_permission_no_entry_on_rabbitmq(make_there: Make) -> None:
    _strangers(make_there)


#: What tags open over HTTP: request, and who may.
TAGGED: Final[tuple[tuple[str, str, dict[str, Any] | None, set[str]], ...]] = (
    ("GET", "/overview", None, {"management", "policymaker", "monitoring", "administrator"}),
    ("GET", "/whoami", None, {"management", "policymaker", "monitoring", "administrator"}),
    ("GET", "/queues/{v}", None, {"management", "policymaker", "monitoring", "administrator"}),
    ("GET", "/nodes", None, {"monitoring", "administrator"}),
    ("GET", "/policies/{v}", None, {"management", "policymaker", "monitoring", "administrator"}),
    ("PUT", "/policies/{v}/p", {"pattern": "x", "definition": {"max-length": 1}}, {"policymaker", "administrator"}),
    ("DELETE", "/policies/{v}/p", None, {"policymaker", "administrator"}),
    ("PUT", "/operator-policies/{v}/p", {"pattern": "x", "definition": {"max-length": 1}}, {"administrator"}),
    ("GET", "/parameters/{v}", None, {"policymaker", "administrator"}),
    ("GET", "/global-parameters", None, {"policymaker", "administrator"}),
    ("GET", "/users", None, {"administrator"}),
    ("PUT", "/users/{v}-other", {"password": "x", "tags": ""}, {"administrator"}),
    ("DELETE", "/users/{v}-other", None, {"administrator"}),
    ("PUT", "/vhosts/{v}", {}, {"administrator"}),
    ("GET", "/permissions", None, {"administrator"}),
    ("PUT", "/permissions/{v}/guest", dict.fromkeys(RIGHTS, ".*"), {"administrator"}),
    ("PUT", "/vhost-limits/{v}/max-queues", {"value": 100}, {"administrator"}),
    ("PUT", "/user-limits/guest/max-channels", {"value": 1000}, {"administrator"}),
    ("GET", "/definitions", None, {"administrator"}),
    ("GET", "/definitions/{v}", None, {"administrator"}),
    ("GET", "/vhosts/{v}/permissions", None, {"administrator"}),
    ("GET", "/feature-flags", None, {"administrator"}),
    ("DELETE", "/reset", None, {"administrator"}),
)


def _tagged(make: Make) -> None:
    users = {tag: make(tag, **dict.fromkeys(RIGHTS, ".*")) for tag in TAGS}
    for method, path, body, who in TAGGED:
        # Those who may not come first: what the others make must not help them.
        for tag in sorted(TAGS, key=lambda tag: tag in who):
            user = users[tag]
            answer = user.doors.ask(path.format(v=user.vhost), method, body, auth=user.auth)
            assert answer.is_success == (tag in who), f"{method} {path} as {tag or 'nobody'}: {answer.text}"
            if not answer.is_success:
                assert answer.status_code == 401, f"{method} {path} as {tag or 'nobody'}: {answer.status_code}"


def test_tags(make: Make) -> None:
    _tagged(make)


def test_tags_on_rabbitmq(make_there: Make) -> None:
    _tagged(make_there)

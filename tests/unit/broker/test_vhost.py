"""The vhost's verbs: declaring, deleting, binding, and RabbitMQ's words when that is refused."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from rabbitlike.broker.broker import Broker
from rabbitlike.broker.message import Message, make_address
from rabbitlike.broker.ports import Subscriber
from rabbitlike.broker.vhost import Vhost, plain_name
from rabbitlike.config import BrokerSettings
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Table, Value
from rabbitlike.storage.memory import MemoryStore
from rabbitlike.testing import FakeClock


class Reader(Subscriber):
    """A consumer that takes nothing and notes when it is cancelled."""

    def __init__(self) -> None:
        super().__init__("reader", 0)
        self.is_cancelled = False

    def takes(self) -> bool:
        return False

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def broker(clock: FakeClock) -> Broker:
    return Broker(BrokerSettings(), MemoryStore(), clock)


@pytest.fixture
def vhost(broker: Broker) -> Vhost:
    return Vhost("/", broker)


@contextmanager
def refusal(code: int, text: str) -> Iterator[None]:
    with pytest.raises(AmqpError) as error:
        yield
    assert (error.value.code, error.value.text) == (code, text)


def args(**arguments: Value) -> Table:
    return Table({name.replace("_", "-"): value for name, value in arguments.items()})


def enqueue(vhost: Vhost, name: str, body: bytes = b"") -> None:
    vhost.queues[name].enqueue(Message(make_address("", name), EMPTY.raw, body, False, -1, 0))


def reached(vhost: Vhost, exchange: str, key: str = "", properties: Properties = EMPTY) -> list[str]:
    return [queue.name for queue in vhost.route(vhost.exchange(exchange), [key], properties)]


LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)
DEFAULT = "operation not permitted on the default exchange"


# Exchanges


def test_predeclared(vhost: Vhost) -> None:
    """#42 #63 what stands in a new vhost"""
    assert {name: (exchange.kind, exchange.internal) for name, exchange in vhost.exchanges.items()} == {
        "": ("direct", False),
        "amq.direct": ("direct", False),
        "amq.fanout": ("fanout", False),
        "amq.topic": ("topic", False),
        "amq.headers": ("headers", False),
        "amq.match": ("headers", False),
        "amq.rabbitmq.trace": ("topic", True),
    }
    assert all(exchange.durable and not exchange.auto_delete for exchange in vhost.exchanges.values())


def test_declare_exchange(vhost: Vhost) -> None:
    made = vhost.declare_exchange("x", "topic", durable=True, auto_delete=True, internal=True, arguments=args(a=1))
    assert vhost.exchange("x") is made
    assert (made.durable, made.auto_delete, made.internal, made.arguments) == (True, True, True, {"a": 1})
    again = vhost.declare_exchange("x", "topic", durable=True, auto_delete=True, internal=True)
    assert again is made


def test_unknown_type(vhost: Vhost) -> None:
    """#41 unknown exchange type: 406"""
    with refusal(406, "unknown exchange type 'foo'"):
        vhost.declare_exchange("x", "foo")


def test_reserved_exchange_names(vhost: Vhost) -> None:
    """#42 new names starting amq. are refused, redeclaring and deleting predeclared ones as RabbitMQ does"""
    with refusal(403, "exchange name 'amq.x' contains reserved prefix 'amq.*'"):
        vhost.declare_exchange("amq.x", "direct")
    assert vhost.declare_exchange("amq.topic", "topic", durable=True) is vhost.exchanges["amq.topic"]
    with refusal(
        406,
        "inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received 'direct' but current is 'topic'",
    ):
        vhost.declare_exchange("amq.topic", "direct", durable=True)
    with refusal(403, "deletion of system exchange 'amq.topic' in vhost '/' not allowed"):
        vhost.delete_exchange("amq.topic")


def test_default_exchange_is_untouchable(vhost: Vhost) -> None:
    """#43 declare, also passive, delete, bind, unbind: 403"""
    queue = vhost.declare_queue("q")
    for forbidden in (
        lambda: vhost.declare_exchange("", "direct"),
        lambda: vhost.declare_exchange("", "direct", passive=True),
        lambda: vhost.declare_exchange("\r\n", "direct"),
        lambda: vhost.delete_exchange(""),
        lambda: vhost.bind("", queue, "k"),
        lambda: vhost.unbind("", queue, "k"),
        lambda: vhost.bind("amq.direct", vhost.exchanges[""], "k"),
        lambda: vhost.unbind("amq.direct", vhost.exchanges[""], "k"),
    ):
        with refusal(403, DEFAULT):
            forbidden()


def test_redeclare_exchange_with_another_type(vhost: Vhost) -> None:
    """#44 exact text"""
    vhost.declare_exchange("x", "direct")
    with refusal(
        406, "inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'direct'"
    ):
        vhost.declare_exchange("x", "fanout")


def test_redeclare_exchange_with_another_alternate(vhost: Vhost) -> None:
    """#44 the alternate-exchange argument"""
    vhost.declare_exchange("x", "direct")
    with refusal(
        406,
        "inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': "
        "received the value 'ae' of type 'longstr' but current is none",
    ):
        vhost.declare_exchange("x", "direct", arguments=args(alternate_exchange="ae"))


def test_refused_arguments_leave_nothing_behind(vhost: Vhost) -> None:
    generation = vhost.generation
    for kind, arguments in (
        ("x-recent-history", args(x_recent_history_length=0)),
        ("x-recent-history", args(x_recent_history_length="20")),
        ("x-consistent-hash", args(hash_property="app_id")),
        ("fanout", args(alternate_exchange=1)),
    ):
        with pytest.raises(AmqpError) as error:
            vhost.declare_exchange("x", kind, arguments=arguments)
        assert error.value.code == 406
        assert "x" not in vhost.exchanges
    assert vhost.generation == generation


def test_recent_history_length_text(vhost: Vhost) -> None:
    with refusal(406, "Invalid argument 0, 'x-recent-history-length' must be a positive integer"):
        vhost.declare_exchange("x", "x-recent-history", arguments=args(x_recent_history_length=0))


def test_delete_exchange(vhost: Vhost) -> None:
    """#45 a missing one is fine; if-unused looks at bindings where it is the source"""
    vhost.delete_exchange("nowhere", if_unused=True)
    x, y = vhost.declare_exchange("x", "fanout"), vhost.declare_exchange("y", "fanout")
    vhost.bind("x", y, "")
    with refusal(406, "exchange 'x' in vhost '/' in use"):
        vhost.delete_exchange("x", if_unused=True)
    vhost.delete_exchange("y", if_unused=True)
    assert not x.is_used
    vhost.delete_exchange("x", if_unused=True)
    assert "x" not in vhost.exchanges


def test_passive_exchange(vhost: Vhost) -> None:
    """#46 missing: 404; type and flags are ignored"""
    with refusal(404, "no exchange 'x' in vhost '/'"):
        vhost.declare_exchange("x", "direct", passive=True)
    made = vhost.declare_exchange("x", "direct")
    assert vhost.declare_exchange("x", "nonsense", passive=True, durable=True, internal=True) is made


def test_publish_target(vhost: Vhost) -> None:
    """#47 #48 publishing to a missing or internal exchange"""
    assert vhost.publish_target("") is vhost.exchanges[""]
    with refusal(404, "no exchange 'x' in vhost '/'"):
        vhost.publish_target("x")
    vhost.declare_exchange("x", "direct", internal=True)
    with refusal(403, "cannot publish to internal exchange 'x' in vhost '/'"):
        vhost.publish_target("x")


def test_line_ends_in_names(vhost: Vhost) -> None:
    """#20 CR and LF are stripped from names in declare, bind and delete"""
    assert plain_name("a\r\nb\n") == "ab"
    queue = vhost.declare_queue("q\r\n")
    assert queue.name == "q"
    assert vhost.declare_queue("\nq", passive=True) is queue
    assert vhost.declare_exchange("x\n", "fanout").name == "x"
    vhost.bind("\rx", queue, "k\n")
    assert [binding.routing_key for binding in vhost.bindings_to(queue)] == ["k\n"]
    vhost.unbind("x\r", queue, "k\n")
    assert not vhost.bindings_to(queue)
    vhost.delete_exchange("x\r\n")
    assert "x" not in vhost.exchanges


# Bindings


def test_bind_and_route(vhost: Vhost) -> None:
    queue = vhost.declare_queue("q")
    vhost.bind("amq.topic", queue, "a.*")
    assert reached(vhost, "amq.topic", "a.b") == ["q"]
    assert reached(vhost, "", "q") == ["q"]
    vhost.unbind("amq.topic", queue, "a.*")
    assert reached(vhost, "amq.topic", "a.b") == []


def test_bind_twice_and_unbind_nothing(vhost: Vhost) -> None:
    """#51 duplicates are idempotent, unbinding what is not there is fine"""
    queue = vhost.declare_queue("q")
    vhost.bind("amq.direct", queue, "k", args(a=1, b=2))
    generation = vhost.generation
    vhost.bind("amq.direct", queue, "k", args(b=2, a=1))
    assert len(vhost.bindings_to(queue)) == 1
    assert vhost.generation == generation
    vhost.unbind("amq.direct", queue, "other")
    vhost.unbind("amq.direct", queue, "k", args(a=1))
    vhost.unbind("nowhere", queue, "k")
    vhost.unbind("amq.direct", None, "k")
    assert len(vhost.bindings_to(queue)) == 1


def test_bind_to_a_missing_exchange(vhost: Vhost) -> None:
    """#52 404"""
    queue = vhost.declare_queue("q")
    with refusal(404, "no exchange 'x' in vhost '/'"):
        vhost.bind("x", queue, "k")


def test_refused_binding_leaves_nothing_behind(vhost: Vhost) -> None:
    """#56 a bad x-match is refused"""
    queue = vhost.declare_queue("q")
    with refusal(406, 'Invalid x-match field value <<"no">>; expected all, any, all-with-x, or any-with-x'):
        vhost.bind("amq.headers", queue, "", args(x_match="no"))
    assert not vhost.bindings_to(queue)
    assert not vhost.exchanges["amq.headers"].is_used


def test_properties_key(vhost: Vhost) -> None:
    queue = vhost.declare_queue("q")
    for key in ("", "a.b", "a b~c/d"):
        vhost.bind("amq.topic", queue, key)
    vhost.bind("amq.topic", queue, "k", args(a=1, b=2))
    first, second, third, fourth = (binding.properties_key for binding in vhost.bindings_to(queue))
    assert (first, second, third) == ("~", "a.b", "a+b%7Ec%2Fd")
    assert re.fullmatch(r"k~[A-Za-z0-9_-]{6}", fourth)
    vhost.bind("amq.fanout", queue, "k", args(b=2, a=1))
    assert list(vhost.bindings_to(queue))[-1].properties_key == fourth


def test_auto_delete_exchange(vhost: Vhost) -> None:
    """#62 it goes with its last outgoing binding, not before it had one"""
    vhost.declare_exchange("x", "direct", auto_delete=True)
    queue = vhost.declare_queue("q")
    vhost.unbind("x", queue, "k")
    assert "x" in vhost.exchanges
    vhost.bind("x", queue, "k")
    vhost.bind("x", queue, "l")
    vhost.unbind("x", queue, "k")
    assert "x" in vhost.exchanges
    vhost.unbind("x", queue, "l")
    assert "x" not in vhost.exchanges


def test_auto_delete_cascade(vhost: Vhost) -> None:
    """#62 deleting a queue may cascade through exchange-to-exchange bindings"""
    queue = vhost.declare_queue("q")
    for name in ("a", "b", "c", "stays"):
        vhost.declare_exchange(name, "fanout", auto_delete=name != "stays")
    vhost.bind("c", queue, "")
    vhost.bind("b", vhost.exchange("c"), "")
    vhost.bind("a", vhost.exchange("b"), "")
    vhost.bind("stays", vhost.exchange("a"), "")
    vhost.delete_queue(queue)
    assert not {"a", "b", "c"} & vhost.exchanges.keys()
    assert not vhost.exchange("stays").is_used
    assert not vhost._incoming


def test_auto_delete_exchanges_bound_in_a_loop(vhost: Vhost) -> None:
    for name in "ab":
        vhost.declare_exchange(name, "fanout", auto_delete=True)
    vhost.bind("a", vhost.exchange("b"), "")
    vhost.bind("b", vhost.exchange("a"), "")
    vhost.bind("a", vhost.exchange("a"), "")
    vhost.delete_exchange("b")
    assert "a" in vhost.exchanges  # bound to itself
    vhost.delete_exchange("a")
    assert not vhost._incoming


def test_a_long_cascade(vhost: Vhost) -> None:
    """#62 the cascade is as long as it needs to be"""
    queue = vhost.declare_queue("q")
    names = [f"x{n}" for n in range(3000)]
    for name in names:
        vhost.declare_exchange(name, "fanout", auto_delete=True)
    for name, following in pairwise(names):
        vhost.bind(name, vhost.exchange(following), "")
    vhost.bind(names[-1], queue, "")
    vhost.delete_queue(queue)
    assert not set(names) & vhost.exchanges.keys()


def test_deleting_an_exchange_removes_its_bindings(vhost: Vhost) -> None:
    queue = vhost.declare_queue("q")
    vhost.declare_exchange("x", "fanout")
    vhost.bind("x", queue, "")
    vhost.bind("amq.fanout", vhost.exchange("x"), "")
    assert reached(vhost, "amq.fanout") == ["q"]
    vhost.delete_exchange("x")
    assert reached(vhost, "amq.fanout") == []
    assert not vhost._incoming
    vhost.declare_exchange("x", "fanout")
    assert reached(vhost, "x") == []


def test_recent_history_is_replayed(vhost: Vhost) -> None:
    vhost.declare_exchange("x", "x-recent-history")
    for n in range(3):
        message = Message(make_address("x", "k"), EMPTY.raw, b"%d" % n, False, -1, 0)
        assert vhost.route(vhost.exchange("x"), ["k"], EMPTY, message) == []
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "")
    assert queue.message_count == 3
    vhost.bind("x", queue, "")
    assert queue.message_count == 3
    first = queue.take()
    assert first is not None
    assert (first.body, first.address) == (b"0", make_address("x", "k"))
    # An exchange bound to it gets them as well, by their own routing key.
    other = vhost.declare_queue("other")
    vhost.bind("amq.direct", other, "k")
    vhost.bind("x", vhost.exchange("amq.direct"), "")
    assert other.message_count == 3


def test_replayed_messages_can_expire(vhost: Vhost, clock: FakeClock) -> None:
    vhost.declare_exchange("x", "x-recent-history")
    properties = Properties.build(expiration="100")
    message = Message(make_address("x", "k"), properties.raw, b"", False, -1, 0)
    vhost.route(vhost.exchange("x"), ["k"], properties, message)
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "")
    assert queue.message_count == 1
    clock.advance(101)
    assert queue.message_count == 0


# Queues


def test_declare_queue(vhost: Vhost) -> None:
    queue = vhost.declare_queue("q", durable=True, auto_delete=True, arguments=args(x_max_length=5))
    assert vhost.queues == {"q": queue}
    assert (queue.durable, queue.auto_delete, queue.owner) == (True, True, None)
    assert queue.settings.max_length == 5
    assert vhost.declare_queue("q", durable=True, auto_delete=True, arguments=args(x_max_length=5)) is queue


def test_transient_queues_are_accepted(vhost: Vhost) -> None:
    """#83 durable=false and not exclusive is fine"""
    assert not vhost.declare_queue("q").durable


def test_server_named(vhost: Vhost) -> None:
    """#65 amq.gen- and 22 characters of url-safe base64, for classic queues only"""
    names = {vhost.declare_queue("").name for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)
    with refusal(406, "Cannot declare a server-named queue for type rabbit_quorum_queue"):
        vhost.declare_queue("", durable=True, arguments=args(x_queue_type="quorum"))


def test_reserved_queue_names(vhost: Vhost) -> None:
    """#66 403 even if it exists; passive is fine"""
    with refusal(403, "queue name 'amq.x' contains reserved prefix 'amq.*'"):
        vhost.declare_queue("amq.x")
    queue = vhost.declare_queue("")
    with refusal(403, f"queue name '{queue.name}' contains reserved prefix 'amq.*'"):
        vhost.declare_queue(queue.name)
    assert vhost.declare_queue(queue.name, passive=True) is queue


def test_passive_queue(vhost: Vhost) -> None:
    """#68 missing: 404; other arguments are ignored; exclusive of someone else: 405"""
    with refusal(404, "no queue 'q' in vhost '/'"):
        vhost.declare_queue("q", passive=True)
    me, other = object(), object()
    queue = vhost.declare_queue("q", exclusive=True, owner=me)
    assert vhost.declare_queue("q", passive=True, durable=True, auto_delete=True, owner=me) is queue
    with refusal(405, LOCKED):
        vhost.declare_queue("q", passive=True, owner=other)


def test_exclusive_queue(vhost: Vhost) -> None:
    """#69 another connection gets 405, and so does the owner that redeclares it as not exclusive"""
    me, other = object(), object()
    queue = vhost.declare_queue("q", exclusive=True, owner=me)
    assert vhost.queue("q", me) is queue
    assert vhost.declare_queue("q", exclusive=True, owner=me) is queue
    forbidden: list[Callable[[], object]] = [
        lambda: vhost.queue("q", other),
        lambda: vhost.queue("q"),
        lambda: vhost.declare_queue("q", exclusive=True, owner=other),
        lambda: vhost.declare_queue("q", owner=other),
        lambda: vhost.declare_queue("q", owner=me),
    ]
    for attempt in forbidden:
        with refusal(405, LOCKED):
            attempt()


def test_redeclaring_a_shared_queue_as_exclusive(vhost: Vhost) -> None:
    """#70 exclusive is compared via 405, before the other flags"""
    me = object()
    vhost.declare_queue("q", owner=me)
    assert vhost.queue("q", object()).owner is None
    with refusal(405, LOCKED):
        vhost.declare_queue("q", exclusive=True, durable=True, owner=me)


def test_redeclare_queue_differently(vhost: Vhost) -> None:
    """#70 durable, auto_delete, then the arguments of the type; unknown ones differ silently"""
    queue = vhost.declare_queue("q", arguments=args(x_message_ttl=1000))
    with refusal(406, "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"):
        vhost.declare_queue("q", durable=True, auto_delete=True)
    with refusal(
        406, "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"
    ):
        vhost.declare_queue("q", auto_delete=True)
    with pytest.raises(AmqpError, match="inequivalent arg 'x-message-ttl'"):
        vhost.declare_queue("q")
    assert vhost.declare_queue("q", arguments=args(x_message_ttl=1000, x_unknown=1)) is queue


def test_dead_letter_key_needs_an_exchange(vhost: Vhost) -> None:
    """#76 refused at declare, and nothing is left behind"""
    generation = vhost.generation
    with refusal(
        406,
        "invalid arg 'x-dead-letter-routing-key' for queue 'q' in vhost '/': routing_key_but_no_dlx_defined",
    ):
        vhost.declare_queue("q", arguments=args(x_dead_letter_routing_key="k"))
    assert not vhost.queues
    assert vhost.generation == generation


def test_dead_letter_exchange_need_not_exist(vhost: Vhost) -> None:
    """#77 the DLX need not exist"""
    vhost.declare_queue("q", arguments=args(x_dead_letter_exchange="nowhere"))


def test_delete_queue(vhost: Vhost) -> None:
    """#78 the reply counts ready messages; if-unused and if-empty"""
    queue = vhost.declare_queue("q")
    reader = Reader()
    queue.add_consumer(reader, False)
    for _ in range(3):
        enqueue(vhost, "q")
    with refusal(406, "queue 'q' in vhost '/' not empty"):
        vhost.delete_queue(queue, if_unused=True, if_empty=True)
    with refusal(406, "queue 'q' in vhost '/' in use"):
        vhost.delete_queue(queue, if_unused=True)
    assert queue.take() is not None
    assert vhost.delete_queue(queue) == 2
    assert queue.deleted
    assert reader.is_cancelled
    assert vhost.delete_queue(queue) == 0
    with refusal(404, "no queue 'q' in vhost '/'"):
        vhost.queue("q")


def test_deleting_the_old_queue_spares_a_new_one_of_its_name(vhost: Vhost) -> None:
    old = vhost.declare_queue("q")
    vhost.delete_queue(old)
    new = vhost.declare_queue("q")
    assert vhost.delete_queue(old) == 0
    assert vhost.queues["q"] is new


def test_auto_delete_queue(vhost: Vhost) -> None:
    """#80 the last consumer takes an auto-delete queue with it, once"""
    queue = vhost.declare_queue("q", auto_delete=True)
    vhost.bind("amq.fanout", queue, "")
    reader = Reader()
    queue.add_consumer(reader, False)
    queue.remove_consumer(reader)
    assert not vhost.queues
    assert reached(vhost, "amq.fanout") == []


def test_exclusive_queues_die_with_their_owner(vhost: Vhost) -> None:
    """#81 all of them, and only those; durable is not kept"""
    me, other = object(), object()
    mine = [vhost.declare_queue(f"q{n}", exclusive=True, durable=True, owner=me) for n in range(3)]
    vhost.declare_queue("theirs", exclusive=True, owner=other)
    vhost.declare_queue("shared", owner=me)
    assert not any(queue.durable for queue in mine)
    vhost.bind("amq.fanout", mine[0], "")
    vhost.delete_queue(mine[1])
    vhost.remove_owner(me)
    assert vhost.queues.keys() == {"theirs", "shared"}
    assert all(queue.deleted for queue in mine)
    assert not vhost.exchanges["amq.fanout"].is_used
    vhost.remove_owner(me)
    vhost.remove_owner(other)
    assert not vhost._owned


@pytest.mark.parametrize("passive", [False, True])
def test_redeclaring_renews_the_lease(vhost: Vhost, clock: FakeClock, passive: bool) -> None:
    """#82 x-expires starts anew"""
    vhost.declare_queue("q", arguments=args(x_expires=100))
    clock.advance(60)
    vhost.declare_queue("q", passive=passive, arguments=args(x_expires=100))
    clock.advance(60)
    assert "q" in vhost.queues
    clock.advance(60)
    assert "q" not in vhost.queues


def test_queue_limit(vhost: Vhost) -> None:
    """#84 new queues beyond the limit are refused, known ones are not"""
    vhost.limits = {"max-queues": 1}
    queue = vhost.declare_queue("q")
    with refusal(406, "cannot declare queue 'r': queue limit in vhost '/' (1) is reached"):
        vhost.declare_queue("r")
    assert vhost.declare_queue("q") is queue
    vhost.delete_queue(queue)
    vhost.declare_queue("r")


def test_deleting_a_queue_cancels_its_consumers(vhost: Vhost) -> None:
    """#85 when the consumer hears of it the queue is gone, and its name is free"""
    queue = vhost.declare_queue("q")
    seen: list[bool] = []

    class Curious(Reader):
        def cancel(self) -> None:
            seen.append("q" in vhost.queues)
            vhost.delete_queue(queue)
            queue.remove_consumer(self)

    queue.add_consumer(Curious(), False)
    vhost.delete_queue(queue)
    assert seen == [False]


def test_every_change_of_topology_is_a_new_generation(vhost: Vhost, broker: Broker) -> None:
    generations = [vhost.generation]
    before = broker.turn.generation - vhost.generation

    def step() -> None:
        assert broker.turn.generation - before == vhost.generation
        assert vhost.generation > generations[-1]
        generations.append(vhost.generation)

    queue = vhost.declare_queue("q")
    step()
    vhost.declare_exchange("x", "fanout")
    step()
    vhost.bind("x", queue, "")
    step()
    vhost.unbind("x", queue, "")
    step()
    vhost.delete_exchange("x")
    step()
    vhost.delete_queue(queue)
    step()
    # What changes nothing does not spoil the caches.
    vhost.delete_exchange("x")
    vhost.declare_exchange("amq.topic", "topic", durable=True)
    assert vhost.generation == generations[-1]


def test_ten_thousand_queues_come_and_go(vhost: Vhost) -> None:
    """Deleting a queue looks at its own bindings only, so thousands cost no more each than one does."""
    queues = [vhost.declare_queue(f"q{n}") for n in range(10_000)]
    for queue in queues:
        vhost.bind("amq.topic", queue, f"{queue.name}.*")
        vhost.bind("amq.fanout", queue, "")
    assert len(reached(vhost, "amq.fanout")) == 10_000
    for queue in queues:
        vhost.delete_queue(queue)
    assert not vhost._incoming
    assert not vhost.exchanges["amq.topic"].is_used

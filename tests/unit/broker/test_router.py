"""Routing through several exchanges: bindings between them, alternates, loops, several keys."""

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.broker.exchanges import Exchange
from rabbitlike.broker.exchanges.exchange import MOST_STEPS
from rabbitlike.broker.message import Message
from rabbitlike.broker.publishing.router import cacheable, route, try_route
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Value
from tests.contract.ends import bind, make_exchange, make_queue, with_headers


class Net:
    """Exchanges by name, and what a publish to one of them reaches."""

    def __init__(self, **kinds: str) -> None:
        self.exchanges: dict[str, Exchange] = {name: make_exchange(kind, name) for name, kind in kinds.items()}

    def __getitem__(self, name: str) -> Exchange:
        return self.exchanges[name]

    def add(self, kind: str, name: str, **arguments: Value) -> Exchange:
        dashed = {argument.replace("_", "-"): value for argument, value in arguments.items()}
        self.exchanges[name] = make_exchange(kind, name, dashed)
        return self.exchanges[name]

    def reached(self, name: str, *keys: str, properties: Properties = EMPTY) -> list[str]:
        keys = keys or ("",)
        return [queue.name for queue in route(self[name], keys, properties, self.exchanges)]


def test_each_queue_once() -> None:
    """#50 a queue receives a message once, however many bindings, exchanges and keys lead to it"""
    net = Net(x="topic", y="fanout", z="direct")
    queue = make_queue("q")
    bind(net["x"], queue, "a.*")
    bind(net["x"], queue, "#")
    assert net.reached("x", "a.b") == ["q"]
    assert net.reached("x", "a.b", "a.c") == ["q"]
    bind(net["x"], net["y"], "#")
    bind(net["x"], net["z"], "#")
    bind(net["y"], queue)
    bind(net["z"], queue, "a.b")
    assert net.reached("x", "a.b", "a.c") == ["q"]


def test_order_is_stable() -> None:
    net = Net(x="fanout", y="fanout")
    bind(net["x"], net["y"])
    for n in (3, 1, 2):
        bind(net["x"], make_queue(f"q{n}"))
        bind(net["y"], make_queue(f"r{n}"))
    assert net.reached("x") == ["q3", "q1", "q2", "r3", "r1", "r2"]


def test_chain_of_exchanges() -> None:
    net = Net(a="direct", b="topic", c="fanout")
    bind(net["a"], net["b"], "k.1")
    bind(net["b"], net["c"], "k.*")
    bind(net["c"], make_queue("q"))
    assert net.reached("a", "k.1") == ["q"]
    assert net.reached("a", "k.2") == []


def test_loops_end() -> None:
    """#50 exchange-to-exchange loops are visited once"""
    net = Net(a="fanout", b="fanout")
    bind(net["a"], net["b"])
    bind(net["b"], net["a"])
    bind(net["a"], net["a"])
    bind(net["b"], make_queue("q"))
    assert net.reached("a") == ["q"]
    assert net.reached("b") == ["q"]


def test_alternate() -> None:
    """#61 the alternate serves when the own bindings match nothing"""
    net = Net(ae="fanout")
    bind(net["ae"], make_queue("unrouted"))
    bind(net.add("direct", "x", alternate_exchange="ae"), make_queue("q"), "k")
    assert net.reached("x", "k") == ["q"]
    assert net.reached("x", "other") == ["unrouted"]
    assert net.reached("x", "other", "k") == ["q"]


def test_alternate_chain_and_loop() -> None:
    """#61 alternate chains go on and stop at loops"""
    net = Net(end="fanout")
    net.add("direct", "a", alternate_exchange="b")
    net.add("direct", "b", alternate_exchange="c")
    net.add("direct", "c", alternate_exchange="a")
    assert net.reached("a", "k") == []
    net.add("direct", "c", alternate_exchange="end")
    bind(net["end"], make_queue("q"))
    assert net.reached("a", "k") == ["q"]


def test_missing_alternate() -> None:
    """#61 if the alternate is missing the message is unroutable"""
    net = Net()
    net.add("direct", "x", alternate_exchange="nowhere")
    assert net.reached("x", "k") == []


def test_alternate_of_an_exchange_on_the_way() -> None:
    """#61 a matching exchange binding counts as matched; the exchange behind it has its own alternate"""
    net = Net(unrouted="fanout", never="fanout")
    bind(net["unrouted"], make_queue("u"))
    bind(net["never"], make_queue("n"))
    net.add("fanout", "first", alternate_exchange="never")
    net.add("direct", "second", alternate_exchange="unrouted")
    bind(net["first"], net["second"])
    assert net.reached("first", "k") == ["u"]


def test_several_keys() -> None:
    """#64 CC and BCC keys apply to every exchange type"""
    net = Net(d="direct", t="topic")
    for kind in "dt":
        bind(net[kind], make_queue("q1"), "one")
        bind(net[kind], make_queue("q2"), "two")
        assert net.reached(kind, "one", "two", "three", "one") == ["q1", "q2"]


def test_several_keys_and_a_kind_that_picks_one() -> None:
    net = Net(r="x-random", h="x-consistent-hash", m="x-modulus-hash")
    for n in range(10):
        for name in "rhm":
            bind(net[name], make_queue(f"q{n}"), "1")
    for name in "rhm":
        assert len(net.reached(name, "one", "two", "three", "four")) == 1


def test_headers_behind_an_exchange() -> None:
    net = Net(x="fanout", h="headers")
    bind(net["x"], net["h"])
    bind(net["h"], make_queue("q"), "", {"a": 1})
    assert net.reached("x", properties=with_headers({"a": 1})) == ["q"]
    assert net.reached("x", properties=with_headers({"a": 2})) == []


def test_cacheable_looks_at_all_that_can_be_reached() -> None:
    net = Net(x="direct", y="topic", h="headers")
    assert cacheable(net["x"], net.exchanges)
    bind(net["x"], net["y"], "k")
    bind(net["y"], net["x"], "k")
    assert cacheable(net["x"], net.exchanges)
    bind(net["y"], net["h"], "k")
    assert not cacheable(net["x"], net.exchanges)
    net.add("fanout", "a", alternate_exchange="h")
    assert not cacheable(net["a"], net.exchanges)
    net.add("fanout", "b", alternate_exchange="nowhere")
    assert cacheable(net["b"], net.exchanges)
    for kind in ("x-random", "x-recent-history", "headers"):
        assert not cacheable(net.add(kind, kind), net.exchanges)


def make_message(body: bytes) -> Message:
    return Message(b"\x01x\x01k", EMPTY.raw, body, False, -1, 0)


def history(exchange: Exchange) -> list[bytes]:
    bodies: list[bytes] = []
    binding = bind(exchange, make_queue("late"))
    exchange.bound(binding, lambda _, message: bodies.append(message.body))
    return bodies


def publish(net: Net, name: str, bodies: Sequence[bytes], properties: Properties = EMPTY) -> None:
    for body in bodies:
        route(net[name], ["k"], properties, net.exchanges, make_message(body))


def test_recent_history_keeps_the_last_twenty() -> None:
    net = Net(x="x-recent-history")
    publish(net, "x", [b"%d" % n for n in range(30)])
    assert history(net["x"]) == [b"%d" % n for n in range(10, 30)]


def test_recent_history_length() -> None:
    net = Net()
    net.add("x-recent-history", "x", x_recent_history_length=2)
    publish(net, "x", [b"a", b"b", b"c"])
    assert history(net["x"]) == [b"b", b"c"]


def test_recent_history_can_be_told_not_to_store() -> None:
    net = Net(x="x-recent-history")
    publish(net, "x", [b"kept"], with_headers({"x-recent-history-no-store": False}))
    publish(net, "x", [b"secret"], with_headers({"x-recent-history-no-store": True}))
    publish(net, "x", [b"also"], with_headers({"other": True}))
    assert history(net["x"]) == [b"kept", b"also"]


def test_recent_history_behind_another_exchange() -> None:
    net = Net(x="fanout", y="x-recent-history")
    bind(net["x"], net["y"])
    publish(net, "x", [b"a"])
    assert history(net["y"]) == [b"a"]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=25),
    st.dictionaries(st.integers(0, 5), st.integers(0, 7), max_size=6),
)
def test_any_graph_ends_and_names_each_queue_once(edges: list[tuple[int, int]], alternates: dict[int, int]) -> None:
    """#50 #61 whatever the bindings and alternates; judged by walking the graph the slow way"""
    net = Net()
    for n in range(6):
        arguments: dict[str, Value] = {"alternate_exchange": str(alternates[n])} if n in alternates else {}
        net.add("fanout", str(n), **arguments)
    queues = {n: make_queue(f"q{n}") for n in range(6, 10)}
    for source, target in edges:
        bind(net[str(source)], queues[target] if target in queues else net[str(target)])

    expected: set[str] = set()
    todo, seen = [0], {0}
    while todo:
        current = todo.pop()
        targets = [target for source, target in edges if source == current]
        if not targets and alternates.get(current, 9) < 6:
            targets = [alternates[current]]
        expected |= {f"q{target}" for target in targets if target > 5}
        todo += {target for target in targets if target <= 5} - seen
        seen |= set(targets)
    found = net.reached("0")
    assert sorted(found) == sorted(expected)


# What routing one message may take

PATTERNS = [".".join(words) for words in product("*#", repeat=11)]


def long_keys(letters: str) -> list[str]:
    """200 keys of a hundred words each, all of them different, and the same at every run."""
    chosen = Random(11)
    return [".".join(chosen.choice(letters) for _ in range(100)) for _ in range(200)]


def test_two_thousand_wildcard_patterns_and_two_hundred_keys() -> None:
    """Words that are in no pattern lead to the same nodes, and these are found once."""
    net = Net(x="topic")
    queue = make_queue("q")
    for pattern in PATTERNS:
        bind(net["x"], queue, pattern)
    assert net.reached("x", *long_keys("abcdefghijklmnop")) == ["q"]
    assert net["x"].steps < MOST_STEPS


def test_patterns_that_no_memory_helps_against() -> None:
    """Each key leads to other nodes, thousands of them: 406 instead of seconds."""
    net = Net(x="topic", y="fanout")
    queue = make_queue("q")
    for words in product("a*#", repeat=7):
        bind(net["x"], queue, ".".join(words))
    bind(net["y"], net["x"])
    for name in "xy":
        before = net["x"].steps
        with pytest.raises(AmqpError, match="406 PRECONDITION_FAILED - routing takes too long: exchange 'x'"):
            net.reached(name, *long_keys("ab"))
        assert net["x"].steps - before < 3 * MOST_STEPS
    assert try_route(net["x"], long_keys("ab"), EMPTY, net.exchanges) == []
    assert net.reached("x", "a.b.a.b.a.b.a.b") == ["q"]


def test_many_ways_between_few_exchanges() -> None:
    """Each exchange is visited once, but each binding between them is looked at."""
    net = Net()
    for number in range(330):
        net.add("fanout", str(number))
    bind(net["329"], make_queue("q"))
    for number in range(150):
        for other in range(330):
            bind(net[str(number)], net[str(other)])
    assert net.reached("0") == ["q"]
    for number in range(150, 330):
        for other in range(330):
            bind(net[str(number)], net[str(other)])
    with pytest.raises(AmqpError, match="routing takes too long"):
        net.reached("0")


def test_many_keys_that_each_lead_to_many_queues() -> None:
    net = Net(x="direct")
    queues = [make_queue(f"q{number}") for number in range(1000)]
    keys = [str(number) for number in range(110)]
    for key in keys:
        for queue in queues:
            bind(net["x"], queue, key)
    assert len(net.reached("x", *keys[:50])) == 1000
    with pytest.raises(AmqpError, match="routing takes too long"):
        net.reached("x", *keys)


@pytest.mark.parametrize("mode", ["any", "all"])
def test_bindings_with_thousands_of_headers(mode: str) -> None:
    net = Net(x="headers")
    headers: dict[str, Value] = {f"h{number}": number for number in range(1000)}
    queue = make_queue("q")
    for number in range(200):
        # Of 200 bindings that want all headers none finds its last one.
        wanted = headers if mode == "any" else {**headers, f"other{number}": 1}
        shared = dict.fromkeys([*wanted, f"mark{number}"]) if mode == "any" else wanted
        bind(net["x"], queue, str(number), {**shared, "x-match": mode})
    few = with_headers({"h1": 1})
    assert net.reached("x", properties=few) == (["q"] if mode == "any" else [])
    with pytest.raises(AmqpError, match="routing takes too long"):
        net.reached("x", properties=with_headers(headers))

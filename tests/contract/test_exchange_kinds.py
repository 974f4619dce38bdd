"""What every kind of exchange owes its callers, run over all of them."""

from dataclasses import dataclass, field

import pytest

from rabbitlike.broker.bindings import Binding
from rabbitlike.broker.exchanges import KINDS, DefaultExchange, Exchange
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Table, Value
from tests.contract.ends import bind, make_binding, make_exchange, make_queue, matched, with_headers


@dataclass(frozen=True)
class Case:
    """A kind, a binding that matches the message below, and another key the kind accepts for a second binding."""

    kind: str
    key: str
    other_key: str
    arguments: dict[str, Value] = field(default_factory=dict)
    routing_key: str = "a.b"
    properties: Properties = EMPTY
    #: Whether all matching destinations get the message, or one of them.
    is_many: bool = True


CASES = (
    Case("direct", "a.b", "other"),
    Case("fanout", "", "other"),
    Case("topic", "a.#", "other"),
    Case("headers", "", "other", {"h": 1}, properties=with_headers({"h": 1})),
    Case("x-consistent-hash", "1", "7", is_many=False),
    Case("x-delayed-message", "a.b", "other"),
    Case("x-message-deduplication", "", "other"),
    Case("x-modulus-hash", "", "other", is_many=False),
    Case("x-random", "", "other", is_many=False),
    Case("x-recent-history", "", "other"),
)


def test_every_kind_is_under_contract() -> None:
    assert {case.kind for case in CASES} == set(KINDS)


@pytest.fixture(params=CASES, ids=lambda case: case.kind)
def case(request: pytest.FixtureRequest) -> Case:
    assert isinstance(request.param, Case)
    return request.param


@pytest.fixture
def exchange(case: Case) -> Exchange:
    return make_exchange(case.kind)


def bind_case(case: Case, exchange: Exchange, queue: Queue) -> Binding:
    return bind(exchange, queue, case.key, case.arguments)


def reached(case: Case, exchange: Exchange) -> set[str]:
    return matched(exchange, case.routing_key, case.properties)


def test_without_bindings_nothing_matches(case: Case, exchange: Exchange) -> None:
    assert reached(case, exchange) == set()
    assert not exchange.is_used
    assert list(exchange.bindings) == []


def test_a_bound_queue_is_reached(case: Case, exchange: Exchange) -> None:
    bind_case(case, exchange, make_queue("q"))
    assert reached(case, exchange) == {"q"}
    assert exchange.is_used


def test_several_bound_queues(case: Case, exchange: Exchange) -> None:
    names = {f"q{n}" for n in range(5)}
    for name in names:
        bind_case(case, exchange, make_queue(name))
    found = reached(case, exchange)
    if case.is_many:
        assert found == names
    else:
        assert len(found) == 1
        assert found < names


def test_binding_twice_is_binding_once(case: Case, exchange: Exchange) -> None:
    """#51 duplicates are idempotent"""
    queue = make_queue("q")
    assert exchange.add(make_binding(exchange, queue, case.key, case.arguments))
    assert not exchange.add(make_binding(exchange, queue, case.key, case.arguments))
    assert len(exchange.bindings) == 1
    exchange.remove(make_binding(exchange, queue, case.key, case.arguments))
    assert reached(case, exchange) == set()


def test_unbinding(case: Case, exchange: Exchange) -> None:
    queue = make_queue("q")
    binding = bind_case(case, exchange, queue)
    assert reached(case, exchange) == {"q"}
    assert exchange.remove(make_binding(exchange, queue, case.key, case.arguments)) is binding
    assert reached(case, exchange) == set()
    assert not exchange.is_used


def test_unbinding_what_is_not_bound(case: Case, exchange: Exchange) -> None:
    """#51 unbinding something that does not exist is no error"""
    bind_case(case, exchange, make_queue("q"))
    assert exchange.remove(make_binding(exchange, make_queue("q"), case.key, case.arguments)) is None
    assert reached(case, exchange) == {"q"}


def test_bindings_differ_by_key_and_by_arguments(case: Case, exchange: Exchange) -> None:
    """#51 identity is source, destination, key and arguments"""
    queue = make_queue("q")
    bind_case(case, exchange, queue)
    bind(exchange, queue, case.other_key, case.arguments)
    bind(exchange, queue, case.key, {**case.arguments, "tag": "x"})
    assert len(exchange.bindings) == 3
    # The first still leads there when the others are gone.
    exchange.remove(make_binding(exchange, queue, case.other_key, case.arguments))
    exchange.remove(make_binding(exchange, queue, case.key, {**case.arguments, "tag": "x"}))
    assert len(exchange.bindings) == 1
    assert reached(case, exchange) == {"q"}


@pytest.mark.parametrize(("kind", "same"), [("l", True), ("L", True), ("b", False)])
def test_arguments_have_no_order_but_types(case: Case, exchange: Exchange, kind: str, same: bool) -> None:
    """#51 arguments are compared order-insensitively"""
    queue = make_queue("q")
    one, other = Table(case.arguments), Table()
    one.put("n", 5, "l")
    one.put("s", "x", "S")
    other.put("s", "x", "S")
    other.put("n", 5, kind)
    for name, value in case.arguments.items():
        other[name] = value
    assert exchange.add(Binding("x", queue, case.key, one))
    assert exchange.add(Binding("x", queue, case.key, other)) is not same
    assert exchange.remove(Binding("x", queue, case.key, other)) is not None


def test_bindings_keep_their_order(case: Case, exchange: Exchange) -> None:
    made = [bind_case(case, exchange, make_queue(f"q{n}")) for n in range(10)]
    assert list(exchange.bindings) == made
    exchange.remove(made[4])
    assert list(exchange.bindings) == made[:4] + made[5:]


def test_a_deleted_destination_is_gone(case: Case, exchange: Exchange) -> None:
    gone, stays = make_queue("gone"), make_queue("stays")
    bindings = [bind_case(case, exchange, gone), bind(exchange, gone, case.other_key, case.arguments)]
    bind_case(case, exchange, stays)
    reached(case, exchange)  # whatever is cached or built by a first look must not survive
    for binding in bindings:
        exchange.remove(binding)
    for _ in range(20):
        assert reached(case, exchange) == {"stays"}


def test_an_exchange_can_be_a_destination(case: Case, exchange: Exchange) -> None:
    further = make_exchange("fanout", "further")
    binding = bind(exchange, further, case.key, case.arguments)
    second = bind(exchange, further, case.other_key, case.arguments)
    assert reached(case, exchange) == {"further"}
    assert list(exchange.downstream) == [further]
    exchange.remove(binding)
    assert list(exchange.downstream) == [further]
    exchange.remove(second)
    assert not exchange.downstream


def test_bind_and_unbind_many(case: Case, exchange: Exchange) -> None:
    queues = [make_queue(f"q{n}") for n in range(200)]
    for queue in queues:
        bind_case(case, exchange, queue)
    for queue in queues[:-1]:
        exchange.remove(make_binding(exchange, queue, case.key, case.arguments))
    assert reached(case, exchange) == {"q199"}


def test_redeclaring_the_same_is_fine(case: Case, exchange: Exchange) -> None:
    exchange.check_equivalent(kind=case.kind, durable=False, auto_delete=False, internal=False, arguments=Table())


def test_redeclaring_something_else(case: Case, exchange: Exchange) -> None:
    """#44 type, durable, auto_delete, internal are compared in this order"""
    other = "direct" if case.kind == "fanout" else "fanout"
    with pytest.raises(AmqpError) as error:
        exchange.check_equivalent(kind=other, durable=True, auto_delete=True, internal=True, arguments=Table())
    assert error.value.code == 406
    assert error.value.text == (
        f"inequivalent arg 'type' for exchange 'x' in vhost '/': received '{other}' but current is '{case.kind}'"
    )
    for flag in ("durable", "auto_delete", "internal"):
        flags = {"durable": False, "auto_delete": False, "internal": False, flag: True}
        with pytest.raises(AmqpError) as error:
            exchange.check_equivalent(kind=case.kind, arguments=Table(), **flags)
        assert error.value.text == (
            f"inequivalent arg '{flag}' for exchange 'x' in vhost '/': received 'true' but current is 'false'"
        )


@pytest.mark.parametrize("argument", ["alternate-exchange", "x-alternate-exchange"])
def test_alternate_argument(case: Case, argument: str) -> None:
    """#44 of the arguments the alternate exchange is compared"""
    exchange = make_exchange(case.kind, arguments={argument: "ae"})
    assert exchange.alternate == "ae"
    same = {"kind": case.kind, "durable": False, "auto_delete": False, "internal": False}
    exchange.check_equivalent(**same, arguments=Table({argument: "ae", "unknown": 1}))  # type: ignore[arg-type]
    with pytest.raises(AmqpError, match="received none but current is the value 'ae' of type 'longstr'"):
        exchange.check_equivalent(**same, arguments=Table())  # type: ignore[arg-type]
    with pytest.raises(AmqpError, match="received 'other' but current is 'ae'"):
        exchange.check_equivalent(**same, arguments=Table({argument: "other"}))  # type: ignore[arg-type]
    with pytest.raises(AmqpError) as error:
        make_exchange(case.kind, arguments={argument: 5})
    assert error.value.text == f"invalid type 'signedint' for arg '{argument}' in exchange 'x' in vhost '/'"


def test_default_exchange_keeps_the_contract_without_bindings() -> None:
    """#63 the default exchange reaches each queue by its name and has no alternate"""
    queues: dict[str, Queue] = {}
    exchange = DefaultExchange("/", queues)
    assert matched(exchange, "q") == set()
    queues["q"] = make_queue("q")
    assert matched(exchange, "q") == {"q"}
    assert matched(exchange, "Q") == set()
    assert exchange.alternate is None
    assert exchange.kind == "direct"
    assert exchange.cacheable
    del queues["q"]
    assert matched(exchange, "q") == set()

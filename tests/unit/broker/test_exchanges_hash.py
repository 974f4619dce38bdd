"""The exchanges that pick one destination: consistent hash, modulus hash, random."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.broker.exchanges import Exchange, consistent_hash
from rabbitlike.broker.exchanges.consistent_hash import ConsistentHashExchange
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Value
from tests.contract.ends import bind, make_binding, make_exchange, make_queue, with_headers

KEYS = [f"key-{n}" for n in range(10_000)]


def one(exchange: Exchange, key: str = "", properties: Properties = EMPTY) -> str:
    (destination,) = exchange.match(key, properties)
    return destination.name


def ring(*weights: str, arguments: dict[str, Value] | None = None) -> Exchange:
    exchange = make_exchange("x-consistent-hash", arguments=arguments)
    for n, weight in enumerate(weights):
        bind(exchange, make_queue(f"q{n}"), weight)
    return exchange


def test_equal_weights_share_evenly() -> None:
    exchange = ring(*["1"] * 10)
    shares = Counter(one(exchange, key) for key in KEYS)
    assert len(shares) == 10
    assert min(shares.values()) > 750
    assert max(shares.values()) < 1250


def test_weights() -> None:
    exchange = ring("1", "1", "2")
    shares = Counter(one(exchange, key) for key in KEYS)
    assert 0.44 < shares["q2"] / len(KEYS) < 0.56


def test_a_key_always_goes_the_same_way() -> None:
    assert [one(ring("1", "2", "3"), key) for key in KEYS[:50]] == [one(ring("1", "2", "3"), key) for key in KEYS[:50]]
    # Routes are promised across restarts and machines: these are cast in stone.
    assert [one(ring(*["1"] * 10), key) for key in KEYS[:5]] == PINNED


PINNED = ["q2", "q9", "q2", "q0", "q8"]


@given(st.integers(1, 12), st.integers(1, 5))
def test_a_new_binding_takes_keys_only_for_itself(count: int, weight: int) -> None:
    exchange = ring(*["2"] * count)
    before = {key: one(exchange, key) for key in KEYS[:1000]}
    newcomer = bind(exchange, make_queue("new"), str(weight))
    moved = {key for key in before if one(exchange, key) != before[key]}
    assert {one(exchange, key) for key in moved} <= {"new"}
    assert len(moved) < 1000 * weight / (2 * count + weight) * 1.6 + 20
    exchange.remove(newcomer)
    assert {key: one(exchange, key) for key in before} == before


@pytest.mark.parametrize("weight", ["99999999999999999999", "1000000", "70000"])
def test_weights_cannot_eat_the_memory(weight: str) -> None:
    exchange = ring("1", weight, "1")
    assert isinstance(exchange, ConsistentHashExchange)
    assert one(exchange, "key").startswith("q")
    assert len(exchange._points) <= consistent_hash.POINTS_LIMIT + 3


def test_beyond_the_limit_a_new_binding_still_moves_few() -> None:
    exchange = ring(*["100"] * 10)
    before = {key: one(exchange, key) for key in KEYS[:1000]}
    bind(exchange, make_queue("new"), "100")
    assert sum(one(exchange, key) != before[key] for key in before) < 250


@pytest.mark.parametrize("key", ["", "a", "1.5", "1_0", " 1", "1 ", "٣", "1e3"])
def test_weight_must_be_an_integer(key: str) -> None:
    exchange = ring()
    with pytest.raises(AmqpError) as error:
        bind(exchange, make_queue("q"), key)
    assert error.value.code == 406
    assert error.value.text == f'The binding key must be an integer: <<"{key}">>'


@pytest.mark.parametrize("key", ["0", "-1"])
def test_weight_must_be_positive(key: str) -> None:
    with pytest.raises(AmqpError, match="The binding key must be greater than 0"):
        ring(key)


def test_hash_header() -> None:
    exchange = ring(*["1"] * 10, arguments={"hash-header": "user"})
    assert not exchange.cacheable
    by_user = {user: one(exchange, "k", with_headers({"user": user})) for user in KEYS[:200]}
    assert len(set(by_user.values())) == 10
    for user, queue in by_user.items():
        assert one(exchange, f"other {user}", with_headers({"n": 1, "user": user})) == queue
    # Without the header all go one way.
    assert len({one(exchange, key) for key in KEYS[:50]}) == 1
    assert one(exchange, "", with_headers({"user": 5})) == one(exchange, "", with_headers({"user": 5}))


@pytest.mark.parametrize("name", ["correlation_id", "message_id", "timestamp"])
def test_hash_property(name: str) -> None:
    exchange = ring(*["1"] * 10, arguments={"hash-property": name})
    assert not exchange.cacheable
    for n in range(50):
        properties = Properties.build(**{name: n if name == "timestamp" else str(n)})
        assert len({one(exchange, key, properties) for key in KEYS[:5]}) == 1
    assert (
        len(
            {
                one(exchange, "", Properties.build(timestamp=n, message_id=str(n), correlation_id=str(n)))
                for n in range(200)
            }
        )
        == 10
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 5}, "Unsupported header: 5"),
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_bad_arguments(arguments: dict[str, Value], text: str) -> None:
    with pytest.raises(AmqpError) as error:
        ring(arguments=arguments)
    assert (error.value.code, error.value.text) == (406, text)


def test_on_the_key_it_is_cacheable() -> None:
    assert ring("1").cacheable


def test_modulus_hash_spreads_and_ignores_the_order_of_binding() -> None:
    exchange, other = make_exchange("x-modulus-hash"), make_exchange("x-modulus-hash")
    queues = [make_queue(f"q{n}") for n in range(5)]
    for queue in queues:
        bind(exchange, queue)
    for queue in reversed(queues):
        bind(other, queue)
    shares = Counter(one(exchange, key) for key in KEYS)
    assert len(shares) == 5
    assert min(shares.values()) > 1800
    assert all(one(exchange, key) == one(other, key) for key in KEYS[:100])


def test_random_reaches_everyone() -> None:
    exchange = make_exchange("x-random")
    for n in range(4):
        bind(exchange, make_queue(f"q{n}"))
    shares = Counter(one(exchange, "same") for _ in range(4000))
    assert len(shares) == 4
    assert min(shares.values()) > 700
    assert not exchange.cacheable


def test_random_after_unbinding() -> None:
    exchange = make_exchange("x-random")
    stays, goes = make_queue("stays"), make_queue("goes")
    bind(exchange, stays)
    bind(exchange, goes)
    one(exchange)
    exchange.remove(make_binding(exchange, goes, ""))
    assert {one(exchange) for _ in range(50)} == {"stays"}

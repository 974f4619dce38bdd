"""Headers exchange: the four x-match modes, values across types, the cache, and a naive model as judge."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.broker.bindings import Binding
from rabbitlike.broker.exchanges import headers
from rabbitlike.broker.exchanges.headers import HeadersExchange
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Array, Table, Timestamp, Value
from tests.contract.ends import bind, make_binding, make_exchange, make_queue, matched, with_headers


def make_headers() -> HeadersExchange:
    exchange = make_exchange("headers")
    assert isinstance(exchange, HeadersExchange)
    return exchange


def accepts(arguments: dict[str, Value], sent: dict[str, Value] | None) -> bool:
    exchange = make_headers()
    bind(exchange, make_queue("q"), "", arguments)
    return bool(matched(exchange, "any key", EMPTY if sent is None else with_headers(sent)))


def test_all_is_the_default() -> None:
    """#56 x-match missing = all"""
    assert accepts({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 3})
    assert not accepts({"a": 1, "b": "x"}, {"a": 1})
    assert not accepts({"a": 1, "b": "x"}, {"a": 1, "b": "y"})
    assert not accepts({"a": 1}, None)
    assert not accepts({"a": 1}, {})


def test_any() -> None:
    """#56 any wants one of them"""
    assert accepts({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"})
    assert not accepts({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "y"})


@pytest.mark.parametrize(("value", "shown"), [("some", '<<"some">>'), ("", "<<>>"), ("ALL", '<<"ALL">>')])
def test_bad_mode(value: str, shown: str) -> None:
    """#56 a bad x-match is refused when binding"""
    with pytest.raises(AmqpError) as error:
        accepts({"x-match": value}, None)
    assert error.value.code == 406
    assert error.value.text == (f"Invalid x-match field value {shown}; expected all, any, all-with-x, or any-with-x")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5, "signedint (value 5)"),
        (True, "bool (value true)"),
        (None, "void (value undefined)"),
        (b"all", 'binary (value <<"all">>)'),
        (b"\x00\xff", "binary (value <<0,255>>)"),
        (b'"\\', 'binary (value <<"\\"\\\\">>)'),
        (Array(["all", Array()]), 'array (value [{longstr,<<"all">>},{array,[]}])'),
        (Table({"all": 1}), 'table (value [{<<"all">>,signedint,1}])'),
    ],
)
def test_bad_mode_type(value: Value, shown: str) -> None:
    """#56 an x-match of another type is refused when binding"""
    with pytest.raises(AmqpError) as error:
        accepts({"x-match": value}, None)
    assert error.value.code == 406
    assert error.value.text == f"Invalid x-match field type {shown}; expected longstr"


def test_names_that_start_with_x() -> None:
    """#57 all and any skip arguments starting x-, the -with-x modes only x-match itself"""
    assert accepts({"a": 1, "x-b": 2}, {"a": 1})
    assert accepts({"x-match": "all", "x-b": 2}, None)
    assert not accepts({"x-match": "any", "x-b": 2}, {"x-b": 2})
    assert not accepts({"x-match": "all-with-x", "a": 1, "x-b": 2}, {"a": 1})
    assert accepts({"x-match": "all-with-x", "a": 1, "x-b": 2}, {"a": 1, "x-b": 2})
    assert accepts({"x-match": "any-with-x", "x-b": 2}, {"x-b": 2})
    assert not accepts({"x-match": "any-with-x"}, {"x-match": "any-with-x"})


def test_void_asks_for_presence() -> None:
    """#58 a void binding value means that the header is there"""
    assert accepts({"a": None}, {"a": "anything"})
    assert accepts({"a": None}, {"a": None})
    assert not accepts({"a": None}, {"b": 1})
    assert accepts({"x-match": "any", "a": None, "b": 1}, {"a": 0})
    assert not accepts({"a": 1}, {"a": None})


@pytest.mark.parametrize("sent", list("bBsuIilLT"))
@pytest.mark.parametrize("wanted", list("bIlT"))
def test_integers_by_value(wanted: str, sent: str) -> None:
    """#58 an int8 5 equals an int64 5"""
    arguments, given_headers = Table(), Table()
    arguments.put("n", Timestamp(5) if wanted == "T" else 5, wanted)
    given_headers.put("n", Timestamp(5) if sent == "T" else 5, sent)
    exchange = make_headers()
    exchange.add(Binding("x", make_queue("q"), "", arguments))
    assert matched(exchange, "", Properties.build(headers=given_headers)) == {"q"}


@pytest.mark.parametrize(
    ("wanted", "sent", "equal"),
    [
        ("x", b"x", True),
        (b"x", "x", True),
        (5, 5.0, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        ("1", 1, False),
        ("a", "A", False),
        ([1, "a"], [1, "a"], True),
        ([1, "a"], ["a", 1], False),
        (Table({"k": 1, "l": 2}), Table({"k": 1, "l": 2}), True),
        ({"k": 1, "l": 2}, {"l": 2, "k": 1}, False),
        ([1], Array([1], ["l"]), False),
        ({"k": 1}, {"k": True}, False),
        (Decimal("1.5"), Decimal("1.50"), True),
        (Decimal(5), 5, False),
    ],
)
def test_values_across_types(wanted: Value, sent: Value, equal: bool) -> None:
    """#58 string types interchange, a flag is no number"""
    assert accepts({"h": wanted}, {"h": sent}) is equal


def test_no_arguments() -> None:
    """#59 all with no arguments matches everything, any with none nothing"""
    for mode in ("all", "all-with-x"):
        assert accepts({"x-match": mode}, None)
        assert accepts({"x-match": mode}, {"a": 1})
    assert accepts({}, {})
    for mode in ("any", "any-with-x"):
        assert not accepts({"x-match": mode}, None)
        assert not accepts({"x-match": mode}, {"a": 1})


def test_a_change_empties_the_cache() -> None:
    exchange = make_headers()
    sent = with_headers({"a": 1})
    bind(exchange, make_queue("other"), "", {"b": 1})
    assert matched(exchange, "", sent) == set()
    binding = bind(exchange, make_queue("q"), "", {"a": 1})
    assert matched(exchange, "", sent) == {"q"}
    exchange.remove(binding)
    assert matched(exchange, "", sent) == set()


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "CACHE_LIMIT", 1000)
    exchange = make_headers()
    bind(exchange, make_queue("q"), "", {"a": 1})
    for n in range(500):
        assert matched(exchange, "", with_headers({"a": 1, "n": n})) == {"q"}
        assert len(exchange._cache) <= 14
    long = with_headers({"a": 1, "long": "x" * 2000})
    assert matched(exchange, "", long) == {"q"}
    assert long.headers_raw not in exchange._cache


def test_other_properties_do_not_spoil_the_cache() -> None:
    exchange = make_headers()
    bind(exchange, make_queue("q"), "", {"a": 1})
    for n in range(5):
        matched(exchange, "", Properties.build(headers={"a": 1}, message_id=str(n)))
    assert len(exchange._cache) == 1


def test_removed_bindings_leave_no_files() -> None:
    exchange = make_headers()
    queue = make_queue("q")
    tables: list[dict[str, Value]] = [
        {},
        {"a": 1},
        {"x-match": "any", "a": 1, "b": None},
        {"a": None},
        {"a": 1, "b": 2},
    ]
    for table in tables:
        bind(exchange, queue, "", table)
    for table in tables:
        exchange.remove(make_binding(exchange, queue, "", table))
    assert not exchange._files
    assert not exchange._always
    assert not exchange._patterns


names = st.sampled_from(["a", "b", "c", "x-d", "x-match2"])
values: st.SearchStrategy[Value] = st.sampled_from([None, 0, 1, True, False, "1", b"1", 1.0, "", [1], {"k": 1}])
tables = st.dictionaries(names, values, max_size=4)
bound = st.tuples(tables, st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"]))


def alike(wanted: Value, sent: Value) -> bool:
    if isinstance(wanted, bool) or isinstance(sent, bool):
        return wanted is sent
    if isinstance(wanted, str | bytes) and isinstance(sent, str | bytes):
        return (wanted if isinstance(wanted, bytes) else wanted.encode()) == (
            sent if isinstance(sent, bytes) else sent.encode()
        )
    return wanted == sent


def naive(arguments: dict[str, Value], mode: str | None, sent: dict[str, Value]) -> bool:
    """The rule read aloud."""
    hits = [
        name in sent and (value is None or alike(value, sent[name]))
        for name, value in arguments.items()
        if (mode or "all").endswith("-with-x") or not name.startswith("x-")
    ]
    return any(hits) if (mode or "all").startswith("any") else all(hits)


@given(st.lists(bound, max_size=10), st.lists(tables, min_size=1, max_size=5), st.data())
def test_against_a_naive_model(
    bindings: list[tuple[dict[str, Value], str | None]], tried: list[dict[str, Value]], data: st.DataObject
) -> None:
    """#57 #58 #59 the index answers as the rule does, before and after some bindings go"""
    exchange = make_headers()
    made = [
        bind(exchange, make_queue(str(n)), "", arguments if mode is None else {**arguments, "x-match": mode})
        for n, (arguments, mode) in enumerate(bindings)
    ]
    everyone = set(range(len(made)))
    for stays in (everyone, data.draw(st.sets(st.sampled_from(sorted(everyone)))) if made else set()):
        for n in everyone - stays:
            exchange.remove(made[n])
        for sent in tried:
            assert matched(exchange, "", with_headers(sent)) == {str(n) for n in stays if naive(*bindings[n], sent)}

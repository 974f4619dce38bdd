"""Headers exchanges: x-match, names that start with x-, void, comparison by value (items 56-59)."""

import re

import pytest
from pamqp import commands

from tests.support.pair import Pair, Typed, loose

HEADERS = dict[str, object]


def is_routed(binding: HEADERS, headers: HEADERS | None) -> bool:
    pair = Pair()
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.headers", "ignored", binding)
    if headers is None:
        ch.publish(b"m", "amq.headers", "key")
    else:
        ch.publish(b"m", "amq.headers", "key", headers=headers)
    return ch.drain("q") == [b"m"]


# --------------------------------------------------------------------------------------------------- bind time


@pytest.mark.parametrize("value", ["foo", "ALL", "", "all ", "any-with-y"])
@pytest.mark.parametrize("exchange", ["amq.headers", "amq.match", "mine"])
def test_bad_match_value(pair: Pair, exchange: str, value: str) -> None:
    """#56 406 at bind time, and nothing is bound."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    ch.declare_exchange("mine", "headers")
    ch.send(loose(commands.Queue.Bind, queue="q", exchange=exchange, arguments={"x-match": value, "a": 1}))
    ch.expect_close(
        406,
        re.compile(
            "PRECONDITION_FAILED - Invalid x-match field value .+; expected all, any, all-with-x, or any-with-x"
        ),
        commands.Queue.Bind,
    )
    other = client.channel()
    other.publish(b"m", exchange, headers={"a": 1})
    assert other.drain("q") == []


@pytest.mark.parametrize("value", [Typed("I", 5), True, None, ["all"], {"all": 1}])
def test_bad_match_type(pair: Pair, value: object) -> None:
    """#56 The value must be a string."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.send(loose(commands.Queue.Bind, queue="q", exchange="amq.headers", arguments={"x-match": value}))
    ch.expect_close(
        406,
        re.compile("PRECONDITION_FAILED - Invalid x-match field type .+; expected longstr"),
        commands.Queue.Bind,
    )


def test_bad_match_between_exchanges(pair: Pair) -> None:
    """#56 exchange.bind checks the same."""
    ch = pair.connect().channel()
    ch.send(
        loose(commands.Exchange.Bind, destination="amq.fanout", source="amq.headers", arguments={"x-match": "some"})
    )
    assert ch.expect(commands.Channel.Close).reply_code == 406


def test_other_exchanges_do_not_care(pair: Pair) -> None:
    """#56 x-match means nothing to a direct exchange."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k", {"x-match": "nonsense"})


@pytest.mark.parametrize("match", ["all", "any", "all-with-x", "any-with-x", None])
def test_match_values(pair: Pair, match: str | None) -> None:
    """#56 The four are accepted, also as octets, and none is all."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.headers", "", {"a": 1} if match is None else {"x-match": match, "a": 1})


def test_missing_match_is_all() -> None:
    """#56 Every argument must be met."""
    assert is_routed({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3})
    assert not is_routed({"a": 1, "b": 2}, {"a": 1})


# ---------------------------------------------------------------------------------------------------- matching


@pytest.mark.parametrize(
    ("binding", "headers", "routed"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x"}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "y"}, False),
        ({"x-match": "all", "a": 1, "b": "x"}, {"b": "x"}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "y"}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, None, False),
        ({"x-match": "all", "a": 1}, None, False),
        ({"x-match": "all", "a": 1}, {"A": 1}, False),
    ],
)
def test_all_and_any(binding: HEADERS, headers: HEADERS | None, routed: bool) -> None:
    """#56 All arguments, or at least one."""
    assert is_routed(binding, headers) is routed


@pytest.mark.parametrize(
    ("binding", "headers", "routed"),
    [
        ({"x-match": "all", "x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "all", "x-a": 1, "b": 2}, {"b": 2, "x-a": 9}, True),
        ({"x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "x-a": 1, "b": 2}, {"x-a": 1}, False),
        ({"x-match": "any", "x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2}, False),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2, "x-a": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 2, "x-match": "any-with-x"}, False),
        ({"x-match": "all-with-x", "b": 2}, {"b": 2}, True),
        ({"x-match": "all", "xa": 1}, {}, False),
        ({"x-match": "all", "X-a": 1}, {}, False),
    ],
)
def test_names_that_start_with_x(binding: HEADERS, headers: HEADERS, routed: bool) -> None:
    """#57 all and any skip x- names; the -with-x kinds use all but x-match itself."""
    assert is_routed(binding, headers) is routed


@pytest.mark.parametrize(
    ("bound", "sent", "routed"),
    [
        (None, 5, True),
        (None, "x", True),
        (None, None, True),
        (None, [1], True),
        (5, None, False),
        ("", None, False),
    ],
)
@pytest.mark.parametrize("match", ["all", "any"])
def test_void_is_presence(match: str, bound: object, sent: object, routed: bool) -> None:
    """#58 A void binding value asks that the header is there, nothing more."""
    assert is_routed({"x-match": match, "a": bound}, {"a": sent}) is routed
    assert not is_routed({"x-match": match, "a": bound}, {"b": sent})


INTEGERS = ["b", "B", "s", "u", "I", "i", "l", "L", "T"]


@pytest.mark.parametrize("bound", INTEGERS)
def test_integers_compare_by_value(bound: str) -> None:
    """#58 An int8 5 equals an int64 5, and so for every width."""
    for sent in INTEGERS:
        assert is_routed({"a": Typed(bound, 5)}, {"a": Typed(sent, 5)}), sent
    assert not is_routed({"a": Typed(bound, 5)}, {"a": Typed("l", 6)})


@pytest.mark.parametrize(
    ("bound", "sent", "routed"),
    [
        ("x", Typed("x", b"x"), True),
        (Typed("x", b"x"), "x", True),
        ("x", "X", False),
        ("x", "x ", False),
        ("", "", True),
        ("1", 1, False),
        (1, "1", False),
        (1, True, False),  # Python would say they are equal
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        (True, False, False),
        (True, "true", False),
        (Typed("I", 1), Typed("d", 1.0), True),
        (Typed("f", 1.5), Typed("d", 1.5), True),
        (Typed("d", 1.5), Typed("d", 1.25), False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ({"b": 1}, {"b": 1}, True),
        ({"b": 1}, {"b": 2}, False),
        (Typed("S", b"\xff\xfe"), Typed("S", b"\xff\xfe"), True),
        (Typed("S", b"\xff\xfe"), Typed("S", b"\xff\xff"), False),
    ],
)
def test_values_compare_by_value(bound: object, sent: object, routed: bool) -> None:
    """#58 String types interchange, numbers compare as numbers, a bool is no number."""
    assert is_routed({"a": bound}, {"a": sent}) is routed


@pytest.mark.parametrize(
    ("binding", "routed"),
    [
        ({}, True),
        ({"x-match": "all"}, True),
        ({"x-match": "all", "x-only": 1}, True),
        ({"x-match": "all-with-x"}, True),
        ({"x-match": "any"}, False),
        ({"x-match": "any", "x-only": 1}, False),
        ({"x-match": "any-with-x"}, False),
    ],
)
def test_no_arguments(binding: HEADERS, routed: bool) -> None:
    """#59 all of nothing matches everything, any of nothing matches nothing."""
    assert is_routed(binding, {"a": 1}) is routed
    assert is_routed(binding, {}) is routed
    assert is_routed(binding, None) is routed


def test_routing_key_means_nothing(pair: Pair) -> None:
    """#56 Only headers count; two bindings that differ in the key alone are still two."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.headers", "k1", {"a": 1})
    ch.bind("q", "amq.headers", "k2", {"a": 1})
    ch.publish(b"1", "amq.headers", "other", headers={"a": 1})
    assert ch.drain("q") == [b"1"]
    ch.unbind("q", "amq.headers", "k1", {"a": 1})
    ch.publish(b"2", "amq.headers", "other", headers={"a": 1})
    assert ch.drain("q") == [b"2"]


def test_decisions_follow_the_bindings(pair: Pair) -> None:
    """#56 The same headers again, after a bind and an unbind, are decided anew."""
    ch = pair.connect().channel()
    ch.declare("q")
    ch.declare("r")
    sent = {"a": 1, "b": "x"}
    ch.bind("q", "amq.headers", "", {"a": 1})
    for _ in range(3):
        ch.publish(b"1", "amq.headers", "", headers=sent)
    assert len(ch.drain("q")) == 3
    ch.bind("r", "amq.headers", "", {"b": "x"})
    ch.publish(b"2", "amq.headers", "", headers=sent)
    assert (ch.drain("q"), ch.drain("r")) == ([b"2"], [b"2"])
    ch.unbind("q", "amq.headers", "", {"a": 1})
    ch.publish(b"3", "amq.headers", "", headers=sent)
    assert (ch.drain("q"), ch.drain("r")) == ([], [b"3"])
    ch.publish(b"4", "amq.headers", "", headers={"a": 1, "b": "y"})
    assert ch.drain("r") == []


@pytest.mark.parametrize(
    ("wanted", "sent", "equal"),
    [
        ({"x": 1, "y": 2}, {"x": 1, "y": 2}, True),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, False),
        ({"x": Typed("b", 1)}, {"x": Typed("l", 1)}, False),
        ([Typed("b", 1)], [Typed("l", 1)], False),
        ([Typed("l", 1)], [Typed("L", 1)], True),
    ],
)
def test_types_count_within_tables_and_arrays(wanted: object, sent: object, equal: bool) -> None:
    """#58 only a header's own value is compared without its type."""
    assert is_routed({"h": wanted}, {"h": sent}) is equal

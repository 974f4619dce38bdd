"""Topic exchange: words, wildcards, the cache, and a naive matcher as judge."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.broker.exchanges import topic
from rabbitlike.broker.exchanges.topic import TopicExchange
from rabbitlike.protocol.properties import EMPTY
from tests.contract.ends import bind, make_binding, make_exchange, make_queue, matched
from tests.support.bystander import bounded_time


def make_topic() -> TopicExchange:
    exchange = make_exchange("topic")
    assert isinstance(exchange, TopicExchange)
    return exchange


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a.b.c", ["a.b.c"], ["a.b", "a.b.c.d", "A.b.c", ""]),
        ("*", ["a", "*", "#"], ["", "a.b", "."]),
        ("#", ["", "a", "a.b", ".", "..."], []),
        ("*.b", ["a.b", ".b"], ["b", "a.a.b", ".a.b"]),
        ("a.*", ["a.b", "a."], ["a", "a.b.c"]),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["", "b.a", "ab"]),
        ("#.z", ["z", "y.z", "x.y.z", ".z"], ["z.y", "", "zz"]),
        ("a.#.z", ["a.z", "a.b.z", "a.b.c.z", "a..z", "a.z.z"], ["a", "z", "a.z.b", "b.a.z"]),
        ("#.b.#", ["b", "a.b", "b.a", "a.b.c", "b.b"], ["", "a", "a.c"]),
        ("*.#", ["a", "a.b", "."], [""]),
        ("#.*", ["a", "a.b"], [""]),
        ("*.*.#.*", ["a.b.c", "a.b.c.d"], ["a.b"]),
        ("#.#", ["", "a", "a.b"], []),
        ("", [""], ["a", "."]),
        (".", ["."], ["", "a.b"]),
        ("a..b", ["a..b"], ["a.b", "a.x.b"]),
        ("a*.b#", ["a*.b#"], ["ax.b", "a.b"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], others: list[str]) -> None:
    """#60 words are split on dots, empty words count, # may match none, also in the middle"""
    exchange = make_topic()
    bind(exchange, make_queue("q"), pattern)
    assert [key for key in matching if not matched(exchange, key)] == []
    assert [key for key in others if matched(exchange, key)] == []


def test_octets_that_are_not_utf8() -> None:
    """#60 matching is bytewise"""
    exchange = make_topic()
    word = b"\xff\xfe".decode("utf-8", "surrogateescape")
    bind(exchange, make_queue("q"), f"{word}.*")
    assert matched(exchange, f"{word}.{word}") == {"q"}
    assert matched(exchange, "\ufffd.a") == set()


def test_two_ways_name_a_queue_once() -> None:
    exchange = make_topic()
    queue = make_queue("q")
    for pattern in ("a.*", "a.#", "#", "*.b"):
        bind(exchange, queue, pattern)
    assert list(exchange.match("a.b", EMPTY)) == [queue]


def test_removed_patterns_leave_no_nodes() -> None:
    exchange = make_topic()
    patterns = ["a.b.c", "a.b", "a.*.c", "a.#", "#", "", "a.#.c"]
    queue = make_queue("q")
    for pattern in patterns:
        bind(exchange, queue, pattern)
    for pattern in patterns:
        exchange.remove(make_binding(exchange, queue, pattern))
    assert exchange._root.is_idle


def test_a_change_empties_the_cache() -> None:
    exchange = make_topic()
    assert matched(exchange, "a") == set()
    binding = bind(exchange, make_queue("q"), "a")
    assert matched(exchange, "a") == {"q"}
    exchange.remove(binding)
    assert matched(exchange, "a") == set()


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "CACHE_LIMIT", 100)
    exchange = make_topic()
    for n in range(10):
        bind(exchange, make_queue(f"q{n}"), "#")
    for n in range(1000):
        assert len(matched(exchange, f"key.{n}")) == 10
        assert len(exchange._cache) <= 11


def test_many_hashes_are_no_trap() -> None:
    exchange = make_topic()
    for n in range(1, 60):
        bind(exchange, make_queue(f"q{n}"), ".".join(["#", "a"] * n) + ".b")
    key = ".".join(["a"] * 127)
    with bounded_time(1.0):
        assert matched(exchange, key) == set()
        assert len(matched(exchange, f"{key[:-2]}.b")) == 59


words = st.sampled_from(["a", "b", "", "cc"])
keys = st.lists(words, max_size=6).map(".".join)
patterns = st.lists(st.one_of(words, st.sampled_from(["*", "#"])), max_size=6).map(".".join)


def naive(pattern: list[str], words: list[str]) -> bool:
    """The rule read aloud."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(naive(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and naive(pattern[1:], words[1:])


@given(st.lists(patterns, max_size=12, unique=True), st.lists(keys, min_size=1, max_size=8), st.data())
def test_against_a_naive_matcher(bound: list[str], tried: list[str], data: st.DataObject) -> None:
    """#60 the trie answers as the rule does, before and after some bindings go"""
    exchange = make_topic()
    bindings = {pattern: bind(exchange, make_queue(pattern), pattern) for pattern in bound}
    for stays in (set(bindings), set(data.draw(st.sets(st.sampled_from(bound)))) if bound else set()):
        for pattern in set(bindings) - stays:
            exchange.remove(bindings[pattern])
        for key in tried:
            expected = {pattern for pattern in stays if naive(topic.split(pattern), topic.split(key))}
            assert matched(exchange, key) == expected


@given(st.lists(words, min_size=1, max_size=5), keys)
def test_star_against_a_regular_expression(literal: list[str], key: str) -> None:
    exchange = make_topic()
    pattern = ".".join(["*", *literal])
    bind(exchange, make_queue("q"), pattern)
    expression = r"[^.]*\." + re.escape(".".join(literal))
    assert bool(matched(exchange, key)) == bool(re.fullmatch(expression, key))

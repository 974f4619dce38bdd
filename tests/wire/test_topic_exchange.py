"""Topic exchanges: words, stars and hashes (item 60), against a matcher written in the plainest way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands

from tests.support.frames import encode_method, shortstr
from tests.support.pair import Channel, Pair, loose


def matches(pattern: list[str], key: list[str]) -> bool:
    """The rule itself: `*` is one word, `#` any number of them."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[at:]) for at in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def words(text: str) -> list[str]:
    """parity: the empty key has no words, though between two dots there is an empty one."""
    return text.split(".") if text else []


def is_routed(pattern: str, key: str) -> bool:
    ch = Pair().connect().channel()
    ch.declare("q")
    ch.bind("q", "amq.topic", pattern)
    ch.publish(b"m", "amq.topic", key)
    return ch.drain("q") == [b"m"]


@pytest.mark.parametrize(
    ("pattern", "key", "routed"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("*", "", False),  # the empty key has no word
        ("*.#", "", False),
        (".", "", False),
        ("*.*", ".", True),
        ("*.*", "a", False),
        ("#", "", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("a.#", "b", False),
        ("a.#", "ab", False),
        ("#.b", "b", True),
        ("#.b", "a.a.b", True),
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b", "a.x.y", False),
        ("#.*", "a", True),
        ("*.#", "a.b", True),
        ("*.#.*", "a", False),
        ("*.#.*", "a.b", True),
        ("#.#", "", True),
        ("#.a.#", "x.a.y.a", True),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("a.#.b", "a..b", True),
        ("a.b", "a..b", False),
        (".a", ".a", True),
        (".a", "a", False),
        ("*.a", ".a", True),
        ("a.", "a.", True),
        ("a.", "a", False),
        ("a.*", "a.", True),
        ("A.b", "a.b", False),  # case counts
        ("a*", "ab", False),  # a star inside a word is a star
        ("a*", "a*", True),
        ("a#.b", "a#.b", True),
        ("**", "a", False),
        ("", "", True),
        ("", "a", False),
        ("ä.*", "ä.ö", True),
    ],
)
def test_topic(pattern: str, key: str, routed: bool) -> None:
    """#60 Words are split at dots and empty words are words; # may be nothing, also in the middle."""
    assert is_routed(pattern, key) is routed
    assert matches(words(pattern), words(key)) is routed


def raw_bind(ch: Channel, pattern: bytes) -> None:
    ch.call(
        loose(commands.Queue.Bind, queue="q", exchange="amq.topic", routing_key=shortstr(pattern)),
        commands.Queue.BindOk,
    )


def raw_publish(ch: Channel, key: bytes) -> None:
    method = loose(commands.Basic.Publish, exchange="amq.topic", routing_key=shortstr(key))
    ch.send_content(method, b"m")


@pytest.mark.parametrize(
    ("pattern", "key", "routed"),
    [
        (b"\xff.*", b"\xff.\xfe", True),
        (b"\xff.*", b"\xfe.\xfe", False),
        (b"\xc3\xa4", b"\xc3\xa4", True),
        (b"\xc3\xa4", b"a\xcc\x88", False),  # the same letter, other octets
        (b"#.\x00", b"a.\x00", True),
        (b"x" * 255, b"x" * 255, True),
        (b"#." + b"x" * 253, b"x" * 253, True),
        (b"*" + b".*" * 127, b"." * 127, True),
        (b"*" + b".*" * 127, b"." * 126, False),
        (b"#" + b".#" * 127, b"a.b.c", True),
    ],
)
def test_topic_is_bytewise(pattern: bytes, key: bytes, routed: bool) -> None:
    """#60 Octets are compared, text or not; keys may be 255 octets long."""
    pair = Pair()
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    raw_bind(ch, pattern)
    raw_publish(ch, key)
    got = ch.call(loose(commands.Queue.Purge, queue="q"), commands.Queue.PurgeOk).message_count
    assert got == (1 if routed else 0)


def test_key_comes_back_bytewise(pair: Pair) -> None:
    """#60 A key that is not text is delivered octet by octet as it was published."""
    client = pair.connect()
    ch = client.channel()
    ch.declare("q")
    raw_bind(ch, b"#")
    raw_publish(ch, b"\xff.\xfe")
    client.wire.client_reads = False  # pamqp could not read this key
    client.feed(encode_method(loose(commands.Basic.Get, queue="q", no_ack=True), ch.number))
    assert b"\x09amq.topic\x03\xff.\xfe" in bytes(client.wire.outbox)


WORDS = st.sampled_from(["a", "b", "c", ""])
KEYS = st.lists(WORDS, min_size=1, max_size=6).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), min_size=1, max_size=6).map(".".join)


@settings(deadline=None, max_examples=150)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["bind", "unbind", "publish", "publish"]), st.integers(0, 4), PATTERNS, KEYS),
        max_size=40,
    )
)
def test_topic_against_the_rule(steps: list[tuple[str, int, str, str]]) -> None:
    """#60 Random bindings, unbindings and keys, several queues: each publish reaches exactly whom the rule names."""
    pair = Pair()
    ch = pair.connect().channel()
    for number in range(5):
        ch.declare(f"q{number}")
    bound: set[tuple[int, str]] = set()
    for verb, number, pattern, key in steps:
        if verb == "bind":
            ch.bind(f"q{number}", "amq.topic", pattern)
            bound.add((number, pattern))
        elif verb == "unbind":
            ch.unbind(f"q{number}", "amq.topic", pattern)
            bound.discard((number, pattern))
        else:
            ch.publish(b"m", "amq.topic", key)
            expected = {to for to, binding in bound if matches(words(binding), words(key))}
            got = {to for to in range(5) if ch.drain(f"q{to}") == [b"m"]}
            assert got == expected, (key, sorted(bound))

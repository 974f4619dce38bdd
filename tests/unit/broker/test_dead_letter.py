"""Dead letters: the headers a buried message carries, and the cycles it must not enter."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode as pamqp_decode

from rabbitlike.broker.queues.dead_letters.x_death import (
    Death,
    Reason,
    deaths_of,
    forget_client_deaths,
    in_cycle,
    original_keys,
    write_death,
)
from rabbitlike.protocol.properties import EMPTY, Properties
from rabbitlike.protocol.tables import Array, Table, Timestamp, Value

NOW_MS = 1_700_000_000_999
NOW_S = 1_700_000_000


def die(
    properties: Properties,
    queue: str = "q",
    reason: Reason = Reason.REJECTED,
    *,
    exchange: str = "x",
    keys: tuple[str, ...] = ("k",),
    now_ms: int = NOW_MS,
    keep_cc: bool = True,
) -> Properties:
    return write_death(
        properties,
        queue=queue,
        exchange=exchange,
        routing_keys=list(keys),
        reason=reason,
        now_ms=now_ms,
        keep_cc=keep_cc,
    )


def headers_of(properties: Properties) -> Table:
    headers = properties.headers
    assert headers is not None
    return headers


def x_death(properties: Properties) -> list[Table]:
    return cast("list[Table]", headers_of(properties)["x-death"])


def claim(queue: Value = "q", count: Value = 1, time_s: Value = 0) -> Table:
    """An entry of x-death as a client may write it, types left to its library."""
    keys = Array(["k"])
    return Table(
        {"queue": queue, "reason": "rejected", "exchange": "x", "routing-keys": keys, "count": count, "time": time_s}
    )


def longstr(text: str) -> bytes:
    return b"S" + len(text).to_bytes(4, "big") + text.encode()


def field(name: str, octets: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + octets


def test_one_death_on_the_wire() -> None:
    """#131 #133 octet by octet: count is a long, time a timestamp in seconds, headers sorted by name."""
    entry = (
        field("count", b"l" + (1).to_bytes(8, "big"))
        + field("reason", longstr("rejected"))
        + field("queue", longstr("q"))
        + field("time", b"T" + NOW_S.to_bytes(8, "big"))
        + field("exchange", longstr("x"))
        + field("routing-keys", b"A" + (12).to_bytes(4, "big") + longstr("k") + longstr("c"))
    )
    entries = b"F" + len(entry).to_bytes(4, "big") + entry
    table = (
        field("x-death", b"A" + len(entries).to_bytes(4, "big") + entries)
        + field("x-first-death-exchange", longstr("x"))
        + field("x-first-death-queue", longstr("q"))
        + field("x-first-death-reason", longstr("rejected"))
        + field("x-last-death-exchange", longstr("x"))
        + field("x-last-death-queue", longstr("q"))
        + field("x-last-death-reason", longstr("rejected"))
    )
    assert die(EMPTY, keys=("k", "c")).raw == b"\x20\x00" + len(table).to_bytes(4, "big") + table


def test_an_independent_decoder_reads_it() -> None:
    """#131 pamqp sees the same history."""
    buried = die(EMPTY)
    _, table = pamqp_decode.field_table(buried.headers_raw)
    assert table["x-death"] == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": "q",
            "time": datetime.fromtimestamp(NOW_S, UTC),
            "exchange": "x",
            "routing-keys": ["k"],
        }
    ]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (Reason.REJECTED, "rejected"),
        (Reason.EXPIRED, "expired"),
        (Reason.MAXLEN, "maxlen"),
        (Reason.DELIVERY_LIMIT, "delivery_limit"),
    ],
)
def test_reasons(reason: Reason, word: str) -> None:
    """#131 the words for why."""
    buried = die(EMPTY, reason=reason)
    assert x_death(buried)[0]["reason"] == word
    assert headers_of(buried)["x-last-death-reason"] == word


def test_expiration_moves_into_the_history() -> None:
    """#131 #134 the property goes, its value stays as original-expiration, first in the entry."""
    buried = die(Properties.build(expiration="100", message_id="m", delivery_mode=2), reason=Reason.EXPIRED)
    assert buried.expiration is None
    assert (buried.message_id, buried.delivery_mode) == ("m", 2)
    (entry,) = x_death(buried)
    assert next(iter(entry.items())) == ("original-expiration", "100")
    assert entry.kind("original-expiration") == "S"
    assert "original-expiration" not in x_death(die(EMPTY))[0]


def test_dying_again_in_the_same_way() -> None:
    """#132 the count grows and the entry comes first; all else stays as it was the first time."""
    first = die(Properties.build(expiration="5"), "a", Reason.EXPIRED, exchange="one", keys=("k1",))
    second = die(first, "b", Reason.MAXLEN, exchange="two", keys=("k2",), now_ms=NOW_MS + 10_000)
    third = die(second, "a", Reason.EXPIRED, exchange="three", keys=("k3",), now_ms=NOW_MS + 20_000)
    assert deaths_of(third) == [
        Death("a", "expired", "one", ("k1",), 2, NOW_S, "5"),
        Death("b", "maxlen", "two", ("k2",), 1, NOW_S + 10),
    ]


def test_another_reason_is_another_entry() -> None:
    """#131 one entry for each queue and reason."""
    twice = die(die(EMPTY, reason=Reason.EXPIRED), reason=Reason.REJECTED)
    assert [(death.queue, death.reason, death.count) for death in deaths_of(twice)] == [
        ("q", "rejected", 1),
        ("q", "expired", 1),
    ]


def test_several_at_once() -> None:
    buried = write_death(
        EMPTY, queue="q", exchange="", routing_keys=["q"], reason=Reason.EXPIRED, now_ms=NOW_MS, count=3
    )
    assert deaths_of(buried)[0].count == 3


def test_first_and_last_death() -> None:
    """#133 the first is set once, the last each time."""
    headers = headers_of(die(die(EMPTY, "a", Reason.EXPIRED, exchange="one"), "b", Reason.REJECTED, exchange="two"))
    assert [headers[f"x-first-death-{what}"] for what in ("reason", "queue", "exchange")] == ["expired", "a", "one"]
    assert [headers[f"x-last-death-{what}"] for what in ("reason", "queue", "exchange")] == ["rejected", "b", "two"]


def test_other_headers_keep_their_types() -> None:
    """#104 #131 whatever the client sent is still what it sent."""
    sent = Table()
    sent.put("small", 5, "b")
    sent.put("price", Decimal("1.50"), "D")
    sent.put("list", Array([1, "two"], "sS"), "A")
    sent.put("half", 0.5, "f")
    headers = headers_of(die(Properties.build(headers=sent)))
    assert {key: (headers.kind(key), headers[key]) for key in sent} == {
        "small": ("b", 5),
        "price": ("D", Decimal("1.50")),
        "list": ("A", [1, "two"]),
        "half": ("f", 0.5),
    }
    assert list(headers) == sorted(headers)


def test_keys_include_cc() -> None:
    """#131 #135 the message's own key, then those of CC; values of other types are passed over."""
    assert original_keys("k", EMPTY) == ["k"]
    assert original_keys("k", Properties.build(headers=Table({"CC": Array(["a", 1, "b"])}))) == ["k", "a", "b"]
    assert original_keys("k", Properties.build(headers=Table({"CC": "a", "note": "CC"}))) == ["k"]


def test_cc_stays_or_goes() -> None:
    """#135 with x-dead-letter-routing-key the CC header is dropped, else kept."""
    sent = Properties.build(headers=Table({"CC": Array(["a"]), "other": 1}))
    assert headers_of(die(sent, keys=("k", "a")))["CC"] == ["a"]
    overridden = headers_of(die(sent, keys=("k", "a"), keep_cc=False))
    assert "CC" not in overridden
    assert overridden["other"] == 1
    assert x_death(die(sent, keys=("k", "a"), keep_cc=False))[0]["routing-keys"] == ["k", "a"]


def test_cycle_without_a_rejection() -> None:
    """#136 a message that went round by itself is dropped."""
    buried = die(die(EMPTY, "a", Reason.EXPIRED), "b", Reason.MAXLEN)
    assert in_cycle(buried, "a")
    assert in_cycle(buried, "b")
    assert not in_cycle(buried, "c")
    assert not in_cycle(EMPTY, "a")


def test_rejection_breaks_a_cycle() -> None:
    """#136 a client rejected it in between, or just now, so it may go round again."""
    rejected_between = die(die(die(EMPTY, "a", Reason.EXPIRED), "b", Reason.REJECTED), "c", Reason.EXPIRED)
    assert not in_cycle(rejected_between, "a")
    assert not in_cycle(rejected_between, "b")
    assert in_cycle(rejected_between, "c")
    assert not in_cycle(die(EMPTY, "a", Reason.REJECTED), "a")


def test_rejection_before_the_cycle_does_not_break_it() -> None:
    """#136 only rejections since it died there count."""
    buried = die(die(EMPTY, "z", Reason.REJECTED), "a", Reason.EXPIRED)
    assert in_cycle(die(buried, "b", Reason.EXPIRED), "a")


def test_deaths_a_client_published_are_continued() -> None:
    """#137 as in RabbitMQ 3.x: a republished message keeps its count, whatever types its entry came back with."""
    entry = claim(count=4, time_s=NOW_S - 60)
    sent = Properties.build(headers=Table({"x-death": Array([entry]), "x-first-death-queue": "elsewhere"}))
    buried = die(sent)
    assert deaths_of(buried) == [Death("q", "rejected", "x", ("k",), 5, NOW_S - 60)]
    assert x_death(buried)[0].kind("count") == "l"
    assert headers_of(buried)["x-first-death-queue"] == "elsewhere"
    assert "x-first-death-reason" not in headers_of(buried)


def test_deaths_a_client_published_can_be_forgotten() -> None:
    """#137 as in RabbitMQ 4: counting starts anew."""
    republished = forget_client_deaths(die(Properties.build(headers=Table({"mine": 1}))))
    assert "x-death" not in headers_of(republished)
    assert headers_of(republished)["mine"] == 1
    assert deaths_of(die(republished))[0].count == 1
    assert forget_client_deaths(EMPTY) is EMPTY
    only_mentioned = Properties.build(headers=Table({"note": "x-death"}))
    assert forget_client_deaths(only_mentioned) is only_mentioned


@pytest.mark.parametrize(
    "claimed",
    [
        "not a list",
        None,
        [],
        ["not a table", 1, None],
        [Table({"queue": "q"})],
        [claim(queue=1)],
        [claim(count="many")],
        [claim(time_s=-1)],
    ],
)
def test_claims_that_are_no_deaths_are_left_out(claimed: Value) -> None:
    """#137 a client may put anything under that name."""
    buried = die(Properties.build(headers=Table({"x-death": claimed})))
    assert [(death.queue, death.count) for death in deaths_of(buried)] == [("q", 1)]


def test_counts_stop_at_what_the_wire_can_carry() -> None:
    """#137 a client may claim any number."""
    for count in ((1 << 63) - 1, Timestamp((1 << 64) - 1)):
        buried = die(Properties.build(headers=Table({"x-death": Array([claim(count=count, time_s=1)])})))
        assert deaths_of(buried)[0].count == (1 << 63) - 1


plain_values = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.text(max_size=5), st.binary(max_size=5)
)
claimed_deaths = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from(["q", "other"]) | plain_values,
        "reason": st.sampled_from(["rejected", "expired"]) | plain_values,
        "exchange": st.just("x") | plain_values,
        "routing-keys": st.lists(plain_values, max_size=3) | plain_values,
        "count": st.integers(0, 9) | plain_values,
        "time": st.integers(0, 9) | plain_values,
        "original-expiration": st.just("5") | plain_values,
    },
)


@given(st.lists(claimed_deaths | plain_values, max_size=4), st.sampled_from(Reason))
def test_no_claim_disturbs_the_broker(claimed: list[Value], reason: Reason) -> None:
    """#137 whatever a client claims, the message is buried, and its newest death is ours."""
    buried = die(Properties.build(headers=Table({"x-death": claimed})), reason=reason)
    newest = deaths_of(buried)[0]
    assert (newest.queue, newest.reason) == ("q", reason.value)
    assert in_cycle(buried, "q") == (reason is not Reason.REJECTED)


def test_entries_of_others_stay_octet_by_octet() -> None:
    """#137 only the entry of this death is written anew: those behind it may be of any client."""
    stranger = Table()
    stranger.put("count", 3, "b")
    claimed = Array([claim(queue="other"), stranger, "no table", claim(queue="q", count=2), claim(queue="last")])
    sent = Properties.build(headers=Table({"x-death": claimed}))
    entries = [Properties.build(headers=Table({"x-death": Array([each])})).raw[19:] for each in claimed]
    buried = die(sent, "q", Reason.REJECTED)
    raw = buried.raw
    start = raw.index(entries[0])
    assert raw[start:].startswith(entries[0] + entries[1] + entries[2] + entries[4])
    assert [(death.queue, death.count) for death in deaths_of(buried)] == [("q", 3), ("other", 1), ("last", 1)]


def test_a_name_that_is_only_mentioned_is_no_death() -> None:
    """#136 an exchange, a key or the beginning of another name is not the queue's."""
    buried = die(EMPTY, "queue-1", Reason.EXPIRED, exchange="queue", keys=("queue", "\x05queueS\0\0\0\x05queue"))
    assert not in_cycle(buried, "queue")
    assert in_cycle(buried, "queue-1")
    again = die(buried, "queue", Reason.EXPIRED)
    assert [(death.queue, death.count) for death in deaths_of(again)] == [("queue", 1), ("queue-1", 1)]

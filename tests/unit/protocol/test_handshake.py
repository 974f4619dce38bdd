"""The opening of a connection, step by step, without a connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp.base import Frame

from rabbitlike import __version__
from rabbitlike.protocol import handshake, methods, tables
from rabbitlike.protocol.errors import AmqpError
from rabbitlike.protocol.handshake import Credentials, State, Tuning
from rabbitlike.protocol.tables import Table
from tests.unit.protocol.wire_values import QUIET, unless_refused, unsigned

PROPERTIES = handshake.server_properties(product="RabbitMQ", version="3.13.7", cluster_name="rabbit@here")


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09"])
def test_headers_we_speak(header: bytes) -> None:
    assert handshake.check_header(header) is None


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"AMQP\x00\x01\x00\x00", "AMQP 1.0;"),
        (b"AMQP\x03\x01\x00\x00", "AMQP 1.0 with SASL"),
        (b"AMQP\x02\x01\x00\x00", "AMQP 1.0 inside TLS"),
        (b"AMQP\x01\x01\x08\x00", "AMQP with version 1-1-8-0"),
        (b"AMQP\x00\x00\x09\x02", "AMQP with version 0-0-9-2"),
        (b"GET / HT", "HTTP"),
        (b"POST /ap", "HTTP"),
        (b"OPTIONS ", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"amqp\x00\x00\x09\x01", "no protocol known here"),
        (b"", "no protocol known here"),
    ],
)
def test_other_headers_are_named_for_the_log(header: bytes, words: str) -> None:
    """#21"""
    said = handshake.check_header(header)
    assert said is not None
    assert said.startswith(words)


@QUIET
@given(st.binary(max_size=8))
def test_any_header_is_taken_or_described(header: bytes) -> None:
    """#21"""
    said = handshake.check_header(header)
    assert (said is None) == (header in (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09"))


def test_start_as_clients_read_it() -> None:
    """#22 Version 0-9, one locale, mechanisms separated by single spaces."""
    octets = methods.encode(handshake.start(PROPERTIES, handshake.mechanisms(None)), 0)
    _, channel, start = pamqp_frame.unmarshal(octets)
    assert isinstance(start, commands.Connection.Start)
    assert channel == 0
    assert (start.version_major, start.version_minor) == (0, 9)
    assert (start.mechanisms, start.locales) == ("PLAIN AMQPLAIN", "en_US")
    assert start.server_properties == PROPERTIES


def test_external_is_offered_to_those_who_have_shown_a_certificate() -> None:
    """#22"""
    assert handshake.mechanisms("CN=me") == "PLAIN AMQPLAIN EXTERNAL"


def test_server_properties() -> None:
    """#23 #24 #25 Capabilities are booleans in a table; product and version are given, our own name stands beside."""
    decoded, _ = tables.decode(tables.encode(PROPERTIES))
    capabilities = decoded["capabilities"]
    assert isinstance(capabilities, Table)
    assert capabilities == dict.fromkeys(
        [
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ],
        True,
    )
    assert set(capabilities.kinds.values()) == {"t"}
    assert {name: decoded[name] for name in ("product", "version", "cluster_name")} == {
        "product": "RabbitMQ",
        "version": "3.13.7",
        "cluster_name": "rabbit@here",
    }
    for name in ("platform", "information"):
        assert str(decoded[name]).startswith(f"rabbitlike {__version__}")
    assert decoded.keys() == {
        "capabilities",
        "cluster_name",
        "copyright",
        "information",
        "platform",
        "product",
        "version",
    }


@pytest.mark.parametrize(
    ("response", "user", "password"),
    [("\0guest\0guest", "guest", "guest"), ("\0\0", "", ""), ("\0ü\udcff\0p w\n", "ü\udcff", "p w\n")],
)
def test_plain(response: str, user: str, password: str) -> None:
    """#27"""
    assert handshake.read_credentials("PLAIN", response) == Credentials(user, password)


@pytest.mark.parametrize(
    "response", ["", "\0", "\0guest", "guest\0guest", "guest", "admin\0guest\0guest", "\0guest\0gu\0est", "\0a\0b\0"]
)
def test_malformed_plain(response: str) -> None:
    """#26 #27 An identity to act for, or a NUL in the password, is refused."""
    with pytest.raises(AmqpError) as raised:
        handshake.read_credentials("PLAIN", response)
    assert raised.value.code == 502
    assert "guest" not in raised.value.text


LOGIN = b"\x05LOGINS\x00\x00\x00\x01u"
PASSWORD = b"\x08PASSWORDS\x00\x00\x00\x02p\xff"


@pytest.mark.parametrize("body", [LOGIN + PASSWORD, PASSWORD + LOGIN, b"\x04moreV" + LOGIN + PASSWORD])
def test_amqplain(body: bytes) -> None:
    """#28 A table without its length."""
    response = body.decode("utf-8", "surrogateescape")
    assert handshake.read_credentials("AMQPLAIN", response) == Credentials("u", "p\udcff")


def test_amqplain_takes_both_string_types() -> None:
    """#28"""
    body = b"\x05LOGINx\x00\x00\x00\x01u\x08PASSWORDx\x00\x00\x00\x01p"
    assert handshake.parse_amqplain(body.decode()) == Credentials("u", "p")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "missing LOGIN or PASSWORD"),
        (LOGIN, "missing LOGIN or PASSWORD"),
        (PASSWORD, "missing LOGIN or PASSWORD"),
        (LOGIN + b"\x08PASSWORDI\x00\x00\x00\x01", "unsupported type"),
        (b"\x05LOGINV" + PASSWORD, "unsupported type"),
        (LOGIN + PASSWORD[:-1], "not a field table"),
        (b"\x00\x00\x00\x1b" + LOGIN + PASSWORD, "not a field table"),
    ],
)
def test_malformed_amqplain(body: bytes, words: str) -> None:
    """#26 #28"""
    with pytest.raises(AmqpError, match=words) as raised:
        handshake.read_credentials("AMQPLAIN", body.decode("utf-8", "surrogateescape"))
    assert raised.value.code == 502


@pytest.mark.parametrize("mechanism", ["X", "plain", "", "EXTERNAL"])
def test_unknown_mechanism(mechanism: str) -> None:
    """#26 EXTERNAL without a certificate is as unknown as any other."""
    with pytest.raises(AmqpError) as raised:
        handshake.read_credentials(mechanism, "")
    assert raised.value.code == 503
    assert raised.value.text == f"unknown authentication mechanism '{mechanism}'"


def test_external_takes_the_name_from_the_certificate() -> None:
    assert handshake.read_credentials("EXTERNAL", "", "CN=me") == Credentials("CN=me", None)


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Credentials("u", "secret"))


@QUIET
@given(st.sampled_from(["PLAIN", "AMQPLAIN"]), st.binary(max_size=60))
def test_any_response_is_credentials_or_502(mechanism: str, octets: bytes) -> None:
    """#26"""
    response = octets.decode("utf-8", "surrogateescape")
    unless_refused(502, lambda: handshake.read_credentials(mechanism, response))


OFFER = Tuning(channel_max=2047, frame_max=131072, heartbeat=60)


@pytest.mark.parametrize(
    "answer",
    [OFFER, Tuning(1, 4096, 0), Tuning(2047, 131072, 65535)],
)
def test_tune_ok_within_the_offer(answer: Tuning) -> None:
    """#31 #32 The heartbeat is whatever the client says."""
    assert handshake.negotiate(OFFER, answer) == answer


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Tuning(0, 131072, 60), "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        (Tuning(2048, 131072, 60), "channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (Tuning(2047, 0, 60), "frame_max = 0 is higher than the maximum allowed value (131072)"),
        (Tuning(2047, 131073, 60), "frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (Tuning(2047, 4095, 60), "frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (Tuning(0, 1, 60), "frame_max = 1 is lower than the minimum allowed value (4096)"),
    ],
)
def test_tune_ok_beyond_the_offer(answer: Tuning, text: str) -> None:
    """#31"""
    with pytest.raises(AmqpError) as raised:
        handshake.negotiate(OFFER, answer)
    assert raised.value.code == 530
    assert raised.value.text == f"negotiated {text}"


def test_tune_ok_when_nothing_is_limited() -> None:
    """#31"""
    unlimited = Tuning(0, 0, 0)
    assert handshake.negotiate(unlimited, unlimited) == unlimited
    assert handshake.negotiate(unlimited, OFFER) == OFFER


@QUIET
@given(st.builds(Tuning, unsigned(16), unsigned(32), unsigned(16)))
def test_any_tune_ok_is_agreed_or_530(answer: Tuning) -> None:
    """#31"""
    agreed = unless_refused(530, lambda: handshake.negotiate(OFFER, answer))
    fits = 1 <= answer.channel_max <= 2047 and 4096 <= answer.frame_max <= 131072
    assert agreed == (answer if fits else None)


def made(*classes: type[Frame]) -> list[Frame]:
    return [methods.make(cls) for cls in classes]


def test_the_way_to_an_open_connection_and_out() -> None:
    state = State.AWAIT_START_OK
    seen = []
    for method in made(
        commands.Connection.StartOk,
        commands.Connection.TuneOk,
        commands.Connection.Open,
        commands.Connection.UpdateSecret,
        commands.Connection.Close,
    ):
        state = handshake.next_state(state, method)
        seen.append(state)
    assert seen == [State.AWAIT_TUNE_OK, State.AWAIT_OPEN, State.OPEN, State.OPEN, State.CLOSED]


@pytest.mark.parametrize("state", [State.AWAIT_START_OK, State.AWAIT_TUNE_OK, State.AWAIT_OPEN, State.OPEN])
def test_any_other_method_is_unexpected(state: State) -> None:
    for cls in methods.METHODS.values():
        if cls.index not in handshake.TRANSITIONS[state]:
            with pytest.raises(AmqpError, match=f"unexpected method in connection state {state.value}") as raised:
                handshake.next_state(state, methods.make(cls))
            assert raised.value.code == 504


def test_a_closing_connection_waits_for_close_ok_and_ignores_the_rest() -> None:
    for cls in methods.METHODS.values():
        after = handshake.next_state(State.CLOSING, methods.make(cls))
        assert after is (State.CLOSED if cls is commands.Connection.CloseOk else State.CLOSING)
        assert handshake.next_state(State.CLOSED, methods.make(cls)) is State.CLOSED


def test_every_state_has_its_row() -> None:
    assert set(handshake.TRANSITIONS) == set(State)

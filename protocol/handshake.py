"""The opening of a connection: protocol header, start, tune, open, and the methods allowed on channel 0 in each state.

Pure functions of values. The session sends, handles timeouts and checks passwords. Passwords never appear in an error
text or a repr.
"""

import platform
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from pamqp import commands
from pamqp.base import Frame

from rabbitlike import __version__
from rabbitlike.protocol import methods, tables
from rabbitlike.protocol.errors import AmqpError, channel_error, command_invalid, not_allowed, syntax_error
from rabbitlike.protocol.tables import Table, Value

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
# parity: the header of 0-9, which RabbitMQ treats as 0-9-1.
_HEADER_0_9: Final = b"AMQP\x01\x01\x00\x09"

#: spec: the smallest frame_max that a peer may request.
FRAME_MAX_LEAST: Final = 4096
#: parity: as in RabbitMQ before 4.1.
FRAME_MAX_BEFORE_TUNE: Final = FRAME_MAX_LEAST
CHANNEL_MAX_LEAST: Final = 1

# Clients look these up by name; pika, for one, refuses confirms unless the first and third are present.
CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class State(Enum):
    """The state of a connection. The values are RabbitMQ's names."""

    AWAIT_HEADER = "pre_init"
    AWAIT_START_OK = "starting"
    AWAIT_TUNE_OK = "tuning"
    AWAIT_OPEN = "opening"
    OPEN = "running"
    CLOSING = "closing"
    CLOSED = "closed"

    #: Enum's own hash is Python code, and a state is looked up for every method on channel 0.
    __hash__ = object.__hash__


# The methods on channel 0 that each state accepts, and the next state. Sending connection.close enters CLOSING.
TRANSITIONS: Final[dict[State, dict[int, State]]] = {
    State.AWAIT_HEADER: {},
    State.AWAIT_START_OK: {
        commands.Connection.StartOk.index: State.AWAIT_TUNE_OK,
        commands.Connection.Close.index: State.CLOSED,
    },
    State.AWAIT_TUNE_OK: {
        commands.Connection.TuneOk.index: State.AWAIT_OPEN,
        commands.Connection.Close.index: State.CLOSED,
    },
    State.AWAIT_OPEN: {
        commands.Connection.Open.index: State.OPEN,
        commands.Connection.Close.index: State.CLOSED,
    },
    State.OPEN: {
        commands.Connection.UpdateSecret.index: State.OPEN,
        commands.Connection.Close.index: State.CLOSED,
    },
    State.CLOSING: {
        # Both sides may close at once: answer the client's close, and keep waiting for its close-ok.
        commands.Connection.Close.index: State.CLOSING,
        commands.Connection.CloseOk.index: State.CLOSED,
    },
    State.CLOSED: {},
}
_LAST: Final = (State.CLOSING, State.CLOSED)


def next_state(state: State, method: Frame) -> State:
    """The state after a method on channel 0; 504 if the method is not allowed in this state.

    A closing connection ignores unexpected methods: the client may not have seen the close yet.
    """
    following = TRANSITIONS[state].get(method.index)
    if following is not None:
        return following
    if state in _LAST:
        return state
    raise channel_error(f"unexpected method in connection state {state.value}")


def check_header(header: bytes) -> str | None:
    """None for the protocol header of AMQP 0-9-1, otherwise the peer's apparent protocol, for the log."""
    if header in (PROTOCOL_HEADER, _HEADER_0_9):
        return None
    if header[:4] == b"AMQP" and len(header) == 8:
        if header[5:] == b"\x01\x00\x00":
            layer = {0: "", 2: " inside TLS", 3: " with SASL"}.get(header[4], "")
            return f"AMQP 1.0{layer}; this listener speaks AMQP 0-9-1"
        return f"AMQP with version {'-'.join(map(str, header[4:]))}; this listener speaks 0-0-9-1"
    if header[:2] == b"\x16\x03":
        return "TLS; this listener is plain TCP, use the TLS port"
    if header.split(b" ")[0].split(b"/")[0] in (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT"):
        return "HTTP; this is the AMQP port, the management port speaks HTTP"
    return f"no protocol known here: {header!r}"


def server_properties(*, product: str, version: str, cluster_name: str) -> Table:
    """Server properties of connection.start. Clients depend on product and version."""
    ours = f"rabbitlike {__version__}"
    return Table(
        {
            "capabilities": Table(dict.fromkeys(CAPABILITIES, True)),
            "cluster_name": cluster_name,
            "copyright": "Copyright the rabbitlike authors",
            "information": f"{ours}, licensed under the Apache License 2.0",
            "platform": f"{ours} on {platform.python_implementation()} {platform.python_version()}",
            "product": product,
            "version": version,
        }
    )


def mechanisms(certificate_name: str | None) -> str:
    """The login mechanisms to offer; EXTERNAL only to a client with a certificate."""
    return "PLAIN AMQPLAIN" if certificate_name is None else "PLAIN AMQPLAIN EXTERNAL"


def start(properties: Table, offered: str) -> commands.Connection.Start:
    """connection.start with version 0-9, which 0-9-1 uses on the wire."""
    return methods.make(
        commands.Connection.Start,
        version_major=0,
        version_minor=9,
        server_properties=properties,
        mechanisms=offered,
        locales="en_US",
    )


@dataclass(frozen=True, slots=True)
class Credentials:
    """A client's claimed identity. Without a password, the certificate has already proved it."""

    user: str
    password: str | None = field(repr=False)


def read_credentials(mechanism: str, response: str, certificate_name: str | None = None) -> Credentials:
    """User and password from start-ok; 503 for a mechanism that was not offered, 502 for a malformed response."""
    if mechanism == "PLAIN":
        return parse_plain(response)
    if mechanism == "AMQPLAIN":
        return parse_amqplain(response)
    if mechanism == "EXTERNAL" and certificate_name is not None:
        return Credentials(certificate_name, None)
    raise command_invalid(f"unknown authentication mechanism '{mechanism}'")


def parse_plain(response: str) -> Credentials:
    """Parse NUL user NUL password. The authorization identity, which PLAIN allows before the first NUL, must be
    empty."""
    parts = response.split("\0")
    if len(parts) != 3 or parts[0]:
        raise syntax_error("PLAIN response must be NUL, user, NUL, password")
    return Credentials(parts[1], parts[2])


def parse_amqplain(response: str) -> Credentials:
    """Parse a field table without length prefix that holds LOGIN and PASSWORD."""
    try:
        table = tables.decode_body(response.encode("utf-8", "surrogateescape"))
    except AmqpError as error:
        raise syntax_error("AMQPLAIN response is not a field table") from error
    if "LOGIN" not in table or "PASSWORD" not in table:
        raise syntax_error("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    user, password = _text(table["LOGIN"]), _text(table["PASSWORD"])
    if user is None or password is None:
        raise syntax_error("AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field")
    return Credentials(user, password)


def _text(value: Value) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None


class Tuning(NamedTuple):
    """Limits of a connection, offered by tune or agreed by tune-ok. 0 means no limit, or no heartbeat."""

    channel_max: int
    frame_max: int
    heartbeat: int


def negotiate(offer: Tuning, answer: Tuning) -> Tuning:
    """The limits after tune-ok: the client's answer, or 530 if it exceeds the offer.

    parity: the client chooses the heartbeat, longer or shorter than offered.
    """
    _check_limit("frame_max", FRAME_MAX_LEAST, offer.frame_max, answer.frame_max)
    _check_limit("channel_max", CHANNEL_MAX_LEAST, offer.channel_max, answer.channel_max)
    return answer


def _check_limit(name: str, least: int, offered: int, answered: int) -> None:
    if answered != 0 and answered < least:
        raise not_allowed(f"negotiated {name} = {answered} is lower than the minimum allowed value ({least})")
    if offered != 0 and (answered == 0 or answered > offered):
        detail = " (no limit)" if answered == 0 and name == "channel_max" else ""
        raise not_allowed(
            f"negotiated {name} = {answered}{detail} is higher than the maximum allowed value ({offered})"
        )

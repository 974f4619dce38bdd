"""How RabbitMQ's error texts show octets: as Erlang prints them. Nothing is decided by these texts."""

from typing import Final

_PRINTABLE: Final = range(0x20, 0x7F)
_SNIPPET: Final = 16


def octets(value: bytes) -> str:
    """A binary: `<<"text">>`, `<<0,255>>`, `<<>>`."""
    if not value:
        return "<<>>"
    if all(octet in _PRINTABLE for octet in value):
        text = value.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{text}">>'
    return f"<<{','.join(map(str, value))}>>"


def frame(kind: int, payload: bytes) -> str:
    """A frame that nobody expected: its type, and how its payload begins."""
    which = "all" if len(payload) <= _SNIPPET else f"first {_SNIPPET}"
    return f"type {kind}, {which} octets = {octets(payload[:_SNIPPET])}"

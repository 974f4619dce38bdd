"""Formats octets as Erlang prints them, for RabbitMQ's error texts. These texts affect nothing else."""

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
    """An unexpected frame: its type and the start of its payload."""
    which = "all" if len(payload) <= _SNIPPET else f"first {_SNIPPET}"
    return f"type {kind}, {which} octets = {octets(payload[:_SNIPPET])}"

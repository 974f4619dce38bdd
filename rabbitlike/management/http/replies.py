"""JSON replies, encoded by orjson. Any value of a name, header or argument can be encoded: nothing fails."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

import orjson
from fastapi.responses import JSONResponse

#: The view of one object: RabbitMQ's field names, JSON values.
View: TypeAlias = Mapping[str, object]


class Reply(JSONResponse):
    """A JSON answer."""

    def render(self, content: object) -> bytes:
        return encode(content)


def encode(value: object) -> bytes:
    try:
        return orjson.dumps(value, _other, orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError:
        # A name that is not UTF-8, or a number beyond 64 bits. Rare, so values are checked only after a failure.
        return orjson.dumps(_plain(value), _other, orjson.OPT_NON_STR_KEYS)


def _other(value: object) -> object:
    """A JSON value for types that JSON lacks."""
    if isinstance(value, bytes):
        return text_or_base64(value)[0]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    return str(value)


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, int) and value.bit_length() > 63:
        return float(value)
    return value


def text_or_base64(octets: bytes) -> tuple[str, str]:
    """parity: the octets as text if they are UTF-8, else as base64; and the name of the encoding."""
    try:
        return octets.decode(), "string"
    except UnicodeDecodeError:
        return b64encode(octets).decode("ascii"), "base64"

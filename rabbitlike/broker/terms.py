"""JSON values as Erlang terms, as RabbitMQ's error texts show them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

#: A JSON value.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def term(value: object) -> str:
    """A value as an Erlang term: `{"a": 1}` is `#{<<"a">> => 1}`."""
    if isinstance(value, str):
        return f"<<{json.dumps(value, ensure_ascii=False)}>>"
    if isinstance(value, Mapping):
        return "#{" + ",".join(f"{term(key)} => {term(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(term, value)) + "]"
    return json.dumps(value)


def pairs(value: Mapping[str, object]) -> str:
    """An object as RabbitMQ's list of pairs: `[{<<"a">>,1}]`."""
    return "[" + ",".join(f"{{{term(key)},{term(each)}}}" for key, each in value.items()) + "]"

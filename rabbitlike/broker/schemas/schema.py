"""JSON Schemas of queues and exchanges: read, compiled once, asked about bodies.

A schema may not refer to anything outside itself, so that nobody can send the broker anywhere. Pure: what becomes of a
message that does not conform is said in validation.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NoReturn

import orjson

from rabbitlike.broker.schemas.cost import Cost, cost_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jsonschema_rs

#: Refuse the publish, close its channel with 406, or take the message for a dead letter.
SchemaAction = Literal["nack", "close", "dead-letter"]
ACTIONS: Final[tuple[SchemaAction, ...]] = ("nack", "close", "dead-letter")

#: Longer bodies are not looked at: they do not conform.
LARGEST_BODY: Final = 1 << 20
LARGEST_SCHEMA: Final = 1 << 18
#: Of a regular expression in a schema: steps back for one text, and octets when compiled.
BACKTRACK_LIMIT: Final = 1000
PATTERN_SIZE: Final = 1 << 18
#: Of what is wrong, so much is told.
FAULT_LENGTH: Final = 150


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, and what happens to those that do not conform to it."""

    text: str
    action: SchemaAction

    def fault(self, body: bytes) -> str | None:
        """What is wrong with a body, in a few words; None: it conforms."""
        if len(body) > LARGEST_BODY:
            return f"{len(body)} octets are more than are looked at"
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            return "it is not JSON"
        validator, cost = _compiled(self.text)
        if not cost.allows(value, len(body)):
            return "it is too large or nested too deeply for its schema"
        try:
            validator.validate(value)
        except ValueError as error:
            return _said(error)[:FAULT_LENGTH]
        return None


def text_of(value: object) -> str:
    """A schema said as JSON text or as a table, as text. Raises ValueError when it is none."""
    try:
        said = orjson.loads(value) if isinstance(value, str) else value
        text = json.dumps(said, sort_keys=True)
        if not isinstance(said, dict | bool) or len(text) > LARGEST_SCHEMA:
            raise ValueError(f"expected a JSON object of at most {LARGEST_SCHEMA} octets")
        _compiled(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    except ValueError as error:
        raise ValueError(_said(error)) from None
    except TypeError:
        raise ValueError("expected JSON") from None
    return text


def read_schema(values: Mapping[str, object]) -> Schema | None:
    """Of settings whose values have passed their checks."""
    if "schema" not in values:
        return None
    action = values.get("schema-action")
    return Schema(text_of(values["schema"]), next((known for known in ACTIONS if known == action), "nack"))


def _said(error: ValueError) -> str:
    """Without the schema and the value, which the library's errors show at length."""
    message: str | None = getattr(error, "message", None)
    return str(error) if message is None else message[:FAULT_LENGTH]


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[jsonschema_rs.Validator, Cost]:
    # Most brokers never see a schema, and the import would delay every start.
    import jsonschema_rs

    schema = json.loads(text)
    cost = cost_of(schema)
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=PATTERN_SIZE)
    return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=patterns), cost


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema")

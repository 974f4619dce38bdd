"""JSON Schemas of queues and exchanges: reading, compiling and validating bodies.

A schema may not refer to anything outside itself, so that a client cannot make the broker fetch URLs. Pure:
validation.py handles messages that do not conform.
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

#: Nack the publish, close its channel with 406, or dead-letter the message.
SchemaAction = Literal["nack", "close", "dead-letter"]
ACTIONS: Final[tuple[SchemaAction, ...]] = ("nack", "close", "dead-letter")

#: Longer bodies do not conform and are not read.
LARGEST_BODY: Final = 1 << 20
LARGEST_SCHEMA: Final = 1 << 18
#: Limits of a regular expression in a schema: backtracking steps for one text, and compiled size in octets.
BACKTRACK_LIMIT: Final = 1000
PATTERN_SIZE: Final = 1 << 18
#: Maximum characters of a fault in an error text.
FAULT_LENGTH: Final = 150


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, and the action for messages that do not conform to it."""

    text: str
    action: SchemaAction

    def fault(self, body: bytes) -> str | None:
        """Why a body does not conform, in a few words; None: it conforms."""
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
    """A schema, given as JSON text or as a table, as normalized text. Raises ValueError if it is invalid."""
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
    """Read the schema from checked settings."""
    if "schema" not in values:
        return None
    action = values.get("schema-action")
    return Schema(text_of(values["schema"]), next((known for known in ACTIONS if known == action), "nack"))


def _said(error: ValueError) -> str:
    """The error text without the schema and the value, which the library's errors show at length."""
    message: str | None = getattr(error, "message", None)
    return str(error) if message is None else message[:FAULT_LENGTH]


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[jsonschema_rs.Validator, Cost]:
    # Most brokers never use a schema, and the import would delay every start.
    import jsonschema_rs

    schema = json.loads(text)
    cost = cost_of(schema)
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=PATTERN_SIZE)
    return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=patterns), cost


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema")

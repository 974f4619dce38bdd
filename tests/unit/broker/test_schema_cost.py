"""What checking against a schema may cost: counted for the schema, and refused before it is paid."""

import json
from typing import Any

import pytest

from rabbitlike.broker.schemas.cost import MOST_VISITS, cost_of
from rabbitlike.broker.schemas.schema import Schema, text_of
from tests.support.bystander import bounded_time

TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "name": {"type": "string"}}}
LIST = {"type": "array", "items": {"$ref": "#"}}
#: An expression of operators, each with its own kind of operands.
CHOICE = {"oneOf": [{"properties": {"op": {"const": op}, "of": {"$ref": "#"}}} for op in ("not", "neg", "abs")]}


def doubling(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """2 KB that a validator reads 2^levels times."""
    definitions: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/definitions/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"definitions": {**definitions, f"d{levels}": {"type": "object"}}, "$ref": "#/definitions/d0"}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"op": "abs"}
    for _ in range(levels):
        value = {"op": "not", "of": value}
    return value


@pytest.mark.parametrize(
    ("schema", "visits", "growth"),
    [
        (True, 1, 1),
        ({}, 1, 1),
        ({"properties": {f"p{at}": {"type": "string"} for at in range(1000)}}, 2, 1),
        ({"allOf": [{}] * 10}, 11, 1),
        ({"anyOf": [{"not": {}}, {"if": {}, "then": {}, "else": {}}]}, 7, 1),
        (
            {"patternProperties": {"^a": {}, "^b": {}}, "additionalProperties": {}, "properties": {"c": {}, "d": {}}},
            7,
            1,
        ),
        (TREE, 3, 1),
        (LIST, 3, 1),
        (CHOICE, 10, 3),
        ({"$defs": {"a": {"$anchor": "here", "not": {}}}, "allOf": [{"$ref": "#here"}, {"$ref": "#/$defs/a"}]}, 7, 1),
        ({"$id": "http://x/y", "$defs": {"a": {"$id": "z", "not": {}}}, "$ref": "/z"}, 3, 1),
        ({"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}}, 3, 1),
        ({"prefixItems": [{}, {"not": {}}], "items": {}}, 4, 1),
        ({"items": [{}, {}], "additionalItems": {"$ref": "#"}}, 4, 1),
    ],
)
def test_visits_and_growth(schema: Any, visits: int, growth: int) -> None:
    cost = cost_of(schema)
    assert (cost.visits, cost.growth) == (visits, growth)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (doubling(28), f"more than {MOST_VISITS} parts of the schema"),
        (doubling(28, "anyOf"), f"more than {MOST_VISITS} parts of the schema"),
        (doubling(28, "oneOf"), f"more than {MOST_VISITS} parts of the schema"),
        ({"properties": {"deep": {"items": doubling(28)}}, "definitions": doubling(28)["definitions"]}, "more than"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"allOf": [{"anyOf": [{"$ref": "#"}]}]}, "refers to itself without end"),
        ({"allOf": [{"pattern": f"^a{at}$"} for at in range(100)]}, "more than 64 different regular expressions"),
        ({"pattern": r"\p{L}{500}"}, "is not a"),
        (json.loads('{"not":' * 200 + "{}" + "}" * 200), "nested more than 100 deep"),
    ],
)
def test_schemas_that_are_refused(schema: dict[str, Any], said: str) -> None:
    with bounded_time(1.0), pytest.raises(ValueError, match=said):
        text_of(json.dumps(schema))


@pytest.mark.parametrize(
    ("schema", "good", "costly"),
    [
        # Each level of the document is checked three times as often as the one around it.
        (CHOICE, nested(6), nested(40)),
        ({"items": {"enum": list(range(10_000))}}, list(range(500)), [1] * 20_000),
        ({"items": {"multipleOf": 0.01}}, [0.25] * 100, [1e300] * 40_000),
        ({"items": {"pattern": "^(?=(a+)+$)a"}}, ["a"] * 100, ["a" * 40] * 10_000),
        ({"allOf": [{"pattern": f"a{{0,{at}}}"} for at in range(50)]}, "a" * 1000, "a" * 1_000_000),
        ({**doubling(10), "uniqueItems": True}, {}, [[at] for at in range(20_000)]),
    ],
)
def test_documents_that_are_too_much_for_a_schema(schema: dict[str, Any], good: Any, costly: Any) -> None:
    checked = Schema(text_of(json.dumps(schema)), "nack")
    assert checked.fault(json.dumps(good).encode()) is None
    body = json.dumps(costly).encode()
    with bounded_time(0.5):
        assert checked.fault(body) == "it is too large or nested too deeply for its schema"


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (TREE, {"left": {"left": {"left": {"name": "leaf"}}}, "right": {}}),
        (LIST, json.loads("[" * 200 + "]" * 200)),
        ({"items": {"type": "object", "properties": {"n": {"type": "integer"}}}}, [{"n": at} for at in range(50_000)]),
    ],
)
def test_large_documents_of_ordinary_schemas_are_checked(schema: dict[str, Any], document: Any) -> None:
    assert Schema(text_of(json.dumps(schema)), "nack").fault(json.dumps(document).encode()) is None

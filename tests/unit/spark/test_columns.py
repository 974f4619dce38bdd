"""Rows to messages and back: columns, ids, property lists."""

import datetime
import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rabbitlike.protocol.properties import Properties
from rabbitlike.spark import identity, options
from rabbitlike.spark.decode import arrow_schema, to_batch
from rabbitlike.spark.encode import Encoder, Messages
from rabbitlike.spark.identity import Writing
from rabbitlike.spark.schema import HEADER_ARRAY, ColumnError, check_read, plan_write, read_ddl
from rabbitlike.spark.wire import Delivery
from rabbitlike.spark.writer import Numbering

BODY = "body binary"
TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "tinyint": ByteType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "decimal(5,2)": DecimalType(5, 2),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
    "map<int,string>": MapType(IntegerType(), StringType()),
    HEADER_ARRAY: ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
    "array<string>": ArrayType(StringType()),
}


def struct(ddl: str) -> StructType:
    """What Spark makes of these words, without a JVM to ask."""
    schema = StructType()
    for column in ddl.split(", "):
        name, _, kind = column.partition(" ")
        schema.add(name, TYPES[kind])
    return schema


def encode(ddl: str, rows: Sequence[dict[str, object]], **given: str) -> Messages:
    parsed = options.parse(given)
    schema = struct(ddl)
    batch = pa.RecordBatch.from_pylist(list(rows), schema=_arrow(schema))
    return Encoder(plan_write(schema, parsed), parsed).encode(batch).finish()


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    made: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return made


def properties(messages: Messages) -> list[Properties]:
    return [Properties(raw) for raw in itertools.islice(messages.properties, messages.count)]


def test_every_column_becomes_its_property() -> None:
    row: dict[str, object] = {
        "body": b"b", "headers": [("a", "1"), ("b", None)], "priority": 9, "expiration": 1500, "message_id": "m",
        "correlation_id": "c", "content_type": "t/p", "content_encoding": "gzip", "type": "ty", "app_id": "ap",
        "user_id": "guest", "reply_to": "r", "delivery_mode": 1,
        "timestamp": datetime.datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=datetime.UTC),
    }  # fmt: skip
    ddl = (
        "body binary, headers map<string,string>, priority int, expiration int, message_id string, "
        "correlation_id string, content_type string, content_encoding string, type string, app_id string, "
        "user_id string, reply_to string, delivery_mode tinyint, timestamp timestamp"
    )
    nothing: dict[str, object] = dict.fromkeys(row) | {"body": b""}
    full, empty = properties(encode(ddl, [row, nothing]))
    assert full == Properties.build(
        headers={"a": "1", "b": None}, priority=9, expiration="1500", message_id="m", correlation_id="c",
        content_type="t/p", content_encoding="gzip", type="ty", app_id="ap", user_id="guest", reply_to="r",
        delivery_mode=1, timestamp=1767323045,
    )  # fmt: skip
    assert empty == Properties.build()


_TEXTS = ("message_id", "correlation_id", "type", "reply_to")


@given(st.lists(st.fixed_dictionaries({name: st.none() | st.text(max_size=9) for name in _TEXTS}), min_size=1))
def test_property_lists_are_what_the_codec_makes(rows: list[dict[str, str | None]]) -> None:
    ddl = ", ".join((BODY, *(f"{name} string" for name in _TEXTS)))
    made = properties(encode(ddl, [{"body": b"", **row} for row in rows]))
    assert made == [Properties.build(delivery_mode=2, **row) for row in rows]


def test_a_constant_property_list_is_made_once() -> None:
    messages = encode(BODY, [{"body": b"1"}, {"body": b"2"}])
    assert isinstance(messages.properties, itertools.repeat)
    assert properties(messages)[0] == Properties.build(delivery_mode=2)


def test_addresses_come_from_columns_or_options() -> None:
    rows: list[dict[str, object]] = [{"body": b"", "key": "k"}, {"body": b"", "key": None}]
    routes = list(encode("body binary, key string", rows, exchange="x", routingKey="other").routes)
    assert [b"\x01x\x01k" in routes[0], b"\x01x\x05other" in routes[1]] == [True, True]
    with pytest.raises(ColumnError, match="'routing_key' is null"):
        encode("body binary, key string", rows, exchange="x")


@pytest.mark.parametrize(
    ("ddl", "given_options", "why"),
    [
        ("body binary, roting_key string", {}, "no column 'roting_key': did you mean 'routing_key'"),
        ("name string", {}, "no column 'name'"),
        ("routing_key string", {}, "column body"),
        ("body int", {}, "'body' is int, and must be binary or string"),
        ("body binary, value string", {}, "'body' and 'value' both are the body"),
        ("body binary, priority string", {}, "'priority' is string"),
        ("body binary, headers map<int,string>", {}, "map of strings"),
        ("body binary, headers array<string>", {}, "an array of structs of key and value"),
        ("body binary, n int", {"format": "json"}, "there is a body"),
    ],
)
def test_columns_that_make_no_message(ddl: str, given_options: dict[str, str], why: str) -> None:
    with pytest.raises(ColumnError, match=why):
        plan_write(struct(ddl), options.parse(given_options))


def test_unknown_columns_can_be_left_out() -> None:
    assert encode("body binary, n int", [{"body": b"b", "n": 1}], ignoreUnknownColumns="true").bodies == [b"b"]


@pytest.mark.parametrize(
    ("ddl", "row", "why"),
    [
        (BODY, {"body": None}, "null"),
        ("body binary, priority int", {"body": b"", "priority": 256}, "0 to 255"),
        ("body binary, message_id string", {"body": b"", "message_id": "x" * 256}, "longer than 255"),
        ("body binary, routing_key string", {"body": b"", "routing_key": "x" * 256}, "longer than 255"),
        ("body binary, timestamp bigint", {"body": b"", "timestamp": -1}, "before 1970"),
    ],
)
def test_values_that_no_message_can_have(ddl: str, row: dict[str, object], why: str) -> None:
    with pytest.raises(ColumnError, match=why):
        list(encode(ddl, [row]).routes)


def test_other_columns_make_a_json_body() -> None:
    ddl = "queue string, n bigint, p decimal(5,2), at timestamp, gone int, tags map<string,int>, routing_key string"
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    row: dict[str, object] = {
        "queue": "ö", "n": 3, "p": Decimal("1.50"), "at": at, "gone": None, "tags": [("a", 1)], "routing_key": "k",
    }  # fmt: skip
    messages = encode(ddl, [row], format="json")
    assert json.loads(messages.bodies[0]) == {
        "queue": "ö", "n": 3, "p": 1.5, "at": "2026-01-02T03:04:05.000Z", "tags": {"a": 1},
    }  # fmt: skip
    assert properties(messages)[0].content_type == "application/json"


# Ids


def content_ids(rows: Sequence[bytes], partition: int = 0, version: int = 1) -> list[bytes]:
    messages = [(b"route", b"list", row) for row in rows]
    return list(identity.content_ids(Writing("app", version), partition, {}, messages))


@given(st.lists(st.binary(max_size=2)), st.randoms(use_true_random=False))
def test_content_ids_do_not_depend_on_order(rows: list[bytes], chance: random.Random) -> None:
    other = rows.copy()
    chance.shuffle(other)
    assert len(set(content_ids(rows))) == len(rows), "different rows, and equal ones, have different ids"
    assert Counter(zip(content_ids(rows), rows, strict=True)) == Counter(zip(content_ids(other), other, strict=True))


def test_content_ids_differ_by_partition_and_version() -> None:
    made = {content_ids([b"x"], partition, version)[0] for partition in range(3) for version in range(3)}
    assert len(made) == 9


@pytest.mark.parametrize("strategy", ["content", "position"])
def test_ids_go_on_from_batch_to_batch(strategy: str) -> None:
    parsed = options.parse({"guarantee": "effectively-once"})
    schema = struct(BODY)
    encoder = Encoder(plan_write(schema, parsed), parsed)
    numbering = Numbering(strategy, Writing("app", 7), 2)
    batch = pa.RecordBatch.from_pylist([{"body": b"same"}] * 3, schema=_arrow(schema))
    ids = [each for _ in range(2) for each in numbering.ids(encoder.encode(batch))]
    assert len(set(ids)) == 6
    if strategy == "position":
        assert ids == [b"app/7/2/%d" % row for row in range(6)]


def test_a_column_of_ids_goes_first() -> None:
    parsed = options.parse({"guarantee": "effectively-once"})
    schema = struct("body binary, message_id string, headers map<string,string>")
    encoder = Encoder(plan_write(schema, parsed), parsed)
    rows = [{"body": b"1", "message_id": "mine", "headers": [("k", "v")]}, {"body": b"2"}]
    draft = encoder.encode(pa.RecordBatch.from_pylist(rows, schema=_arrow(schema)))
    messages = draft.finish_with_ids(Numbering("content", Writing("app", 0), 0).ids(draft), with_header=True)
    first, second = properties(messages)
    assert (first.message_id, first.headers) == ("mine", {"k": "v", "x-deduplication-header": "mine"})
    assert second.message_id
    assert second.headers == {"x-deduplication-header": second.message_id}
    with pytest.raises(ColumnError, match="null"):
        Numbering("column", Writing("app", 0), 0).ids(draft)


# Messages to rows


def test_a_message_becomes_a_row() -> None:
    made = Properties.build(
        headers={"s": "t", "n": 5, "x": b"\xff", "f": {"a": [1, None]}, "v": None}, priority=3, delivery_mode=2,
        timestamp=1767323045, message_id="m", expiration="10",
    )  # fmt: skip
    delivery = Delivery(1, True, "x", "k\udcff", made.raw, b"body")
    (row,) = to_batch([delivery], "q", include_headers="map", first_offset=7).to_pylist()
    assert row.pop("timestamp").timestamp() == 1767323045
    headers = dict(row.pop("headers"))
    assert headers == {"s": "t", "n": "5", "x": "\ufffd", "f": '{"a":[1,null]}', "v": None}
    assert json.loads(row.pop("headers_json")) == {"s": "t", "n": 5, "x": "/w==", "f": {"a": [1, None]}, "v": None}
    assert {name: value for name, value in row.items() if value is not None} == {
        "body": b"body", "exchange": "x", "routing_key": "k\ufffd", "queue": "q", "offset": 7, "redelivered": True,
        "message_id": "m", "expiration": "10", "priority": 3, "delivery_mode": 2,
    }  # fmt: skip


def read_struct(value: str) -> StructType:
    """The columns that are read with this value of includeHeaders."""
    ddl = read_ddl(options.parse({"includeHeaders": value}))
    return struct(ddl.replace("`", ""))


@pytest.mark.parametrize("value", ["map", "true", "false"])
def test_arrow_and_spark_agree_on_the_columns(value: str) -> None:
    assert arrow_schema(value).equals(_arrow(read_struct(value)))
    assert ("headers" in arrow_schema(value).names) == (value != "false")


def test_headers_as_kafka_has_them() -> None:
    """An array of structs of key and octets, to read and to write."""
    headers = {"s": "ö", "n": 5, "x": b"\xff", "v": None}
    delivery = Delivery(1, False, "", "k", Properties.build(headers=headers).raw, b"")
    (row,) = to_batch([delivery], "q", include_headers="true").to_pylist()
    pairs = [("s", "ö".encode()), ("n", b"5"), ("x", b"\xff"), ("v", None)]
    assert row["headers"] == [{"key": key, "value": value} for key, value in pairs]
    (written,) = properties(encode(f"body binary, headers {HEADER_ARRAY}", [{"body": b"", "headers": row["headers"]}]))
    assert written.headers == dict(pairs)


@pytest.mark.parametrize("pair", [None, {"key": None, "value": b""}])
def test_a_header_needs_a_key(pair: dict[str, object] | None) -> None:
    with pytest.raises(ColumnError, match="header without a key"):
        encode(f"body binary, headers {HEADER_ARRAY}", [{"body": b"", "headers": [pair]}])


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id int, name string", "'id int' is none of them. They are body binary, "),
        ("body string", "'body string' is none of them"),
        ("body binary", "some are missing"),
    ],
)
def test_other_columns_cannot_be_asked_for(ddl: str, why: str) -> None:
    parsed = options.parse({})
    with pytest.raises(ColumnError, match=rf"leave \.schema\(…\) out: {why}"):
        check_read(struct(ddl), parsed)
    check_read(read_struct("map"), parsed)


@pytest.mark.parametrize(
    ("value", "seconds"), [(1767323045, 1767323045), (1767323045123, 1767323045.123), (1 << 63, None)]
)
def test_odd_timestamps(value: int, seconds: float | None) -> None:
    delivery = Delivery(1, False, "", "", Properties.build(timestamp=value).raw, b"")
    (row,) = to_batch([delivery], "q", include_headers="false").to_pylist()
    assert (row["timestamp"].timestamp() if row["timestamp"] else None) == seconds

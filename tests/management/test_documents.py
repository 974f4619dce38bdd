"""Long documents: read entry by entry, they say what the parser says they do."""

import asyncio
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.management.http import documents
from tests.support.api import Api
from tests.support.bystander import bounded_time

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@pytest.fixture(autouse=True)
def all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "SHORT", 0)


def read(body: bytes) -> object:
    return asyncio.run(documents.parsed(body))


@given(value=VALUES, indent=st.none() | st.integers(0, 3), is_ascii=st.booleans())
def test_what_is_written_is_read(value: object, indent: int | None, is_ascii: bool) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        wanted = orjson.loads(body)
    except orjson.JSONDecodeError:
        with pytest.raises(orjson.JSONDecodeError):
            read(body)
    else:
        assert read(body) == wanted


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}x",
        b"{} {}",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b'{"a":[1,]}',
        b'{"a":[1}',
        b'{"a":[1 2]}',
        b'{"a":[1],"b"',
        b"{1:2}",
        b'{"a":NaN}',
        b'{"a":[Infinity]}',
        b'{"a":["\\ud800"]}',
        b'{"a":["\x01"]}',
        b'{"a":"\xff"}',
        b'{"a":' + b"[" * 100_000,
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        read(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":[2]}',
        b' \n{ "a" : [ ] , "b" : { } }\t',
        b"[1,2]",
        b'"text"',
        b"null",
        b'{"a":[18446744073709551616]}',
    ],
)
def test_what_is_odd_is_read_as_the_parser_reads_it(body: bytes) -> None:
    assert read(body) == orjson.loads(body)


async def test_others_work_meanwhile() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    document = {"queues": [{"name": f"q{at}", "vhost": "/", "arguments": {"n": at}} for at in range(20_000)]}
    assert await documents.parsed(json.dumps(document).encode()) == document
    task.cancel()
    assert turns > 3


async def test_refusals_are_those_of_short_bodies(api: Api) -> None:
    for body, reason in [
        (b"[]", "not_json"),
        (b"{", "not_json"),
        (b'"{}"', "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"),
    ]:
        for path in ("/api/definitions", "/api/definitions/%2F", "/api/queues/%2F/q/get"):
            answer = await api.post(path, content=body)
            assert (answer.status_code, answer.json()["reason"]) == (400, reason), (path, body)
    for body in (b"", b"null", b" undefined "):
        assert (await api.post("/api/definitions", content=body)).status_code == 204


# What would take a parser too long


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1,2,3]", 3),
        ('{"a":1,"b":[1,2]}', 3),
        ('["a,b",",,,"]', 2),
        (r'["\",,\",",1]', 2),
        (r'["\\",1,"\\\\",2]', 4),
        (r'["\\\",,,",1]', 2),
        ('["unfinished, and so on', 1),
    ],
)
async def test_values_are_counted_and_texts_are_not(text: str, values: int) -> None:
    assert not await documents.has_more_values(text.encode(), values)
    if values > 1:
        assert await documents.has_more_values(text.encode(), values - 1)


async def test_a_body_of_a_million_values_is_refused_before_it_is_parsed(api: Api) -> None:
    headers = {str(number): number for number in range(1_000_000)}
    message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {"headers": headers}}
    arguments = {"arguments": {str(number): number for number in range(400_000)}}
    long = json.dumps(message).encode(), json.dumps(arguments).encode()
    with bounded_time(0.5):
        published = await api.post("/api/exchanges/%2F/amq.default/publish", content=long[0])
        declared = await api.put("/api/queues/%2F/q", content=long[1])
    for answer in (published, declared):
        assert (answer.status_code, answer.json()["reason"]) == (400, "the body holds more than 12000 values")
    # Those who send a text with commas in it are none the worse for it.
    api.pair.connect().channel().declare("q")
    lines = {**message, "payload": "a,b,c\n" * 100_000, "properties": {}}
    answer = await api.post("/api/exchanges/%2F/amq.default/publish", json=lines)
    assert answer.json() == {"routed": True}


async def test_an_entry_of_a_document_has_a_longest_length(api: Api) -> None:
    arguments = {f"x-{number}": number for number in range(400_000)}
    document = {"queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}]}
    long = json.dumps(document).encode()
    unusual = json.dumps([document]).encode()
    with bounded_time(0.5):
        answer = await api.post("/api/definitions", content=long)
        other = await api.post("/api/definitions", content=unusual)
    assert (answer.status_code, answer.json()["reason"]) == (400, "an entry is longer than 262144 characters")
    assert (other.status_code, other.json()["reason"]) == (400, "not_json")
    assert "q" not in api.pair.broker.vhosts["/"].queues
    document["queues"][0]["arguments"] = {"x-note": "n" * 200_000}
    assert (await api.post("/api/definitions", json=document)).status_code == 204

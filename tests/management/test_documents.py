"""Long documents: read entry by entry, they say what the parser says they do."""

import asyncio
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rabbitlike.management import documents
from tests.support.api import Api

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

"""JSON documents that may be long, read entry by entry: a parser reads all of a text in one go, and nobody else works.

A document of definitions is an object with arrays of thousands of entries. Each entry is a text of its own here, of a
bounded length; a document that is anything else must be short enough to be read in one go. How many values another body
may have is counted before any parser sees it.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Final

import orjson

from rabbitlike.management.listing.lists import Slices

if TYPE_CHECKING:
    from rabbitlike.broker.terms import Json

#: What is shorter takes a fraction of a millisecond.
SHORT: Final = 64 * 1024
#: Characters of an entry, and octets of a document that is not made of entries: some milliseconds for a parser.
LONGEST_ENTRY: Final = 256 * 1024
#: An entry is looked for within so many characters, then within more: most are short.
_REACHES: Final = (1024, 16 * 1024, LONGEST_ENTRY)
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class TooLong(ValueError):
    """An entry that would take a parser too long."""


class _Unusual(Exception):
    """Not a regular document."""


async def parsed(body: bytes) -> Json:
    """What the text says; orjson.JSONDecodeError when it says nothing, TooLong for an entry that nobody can need."""
    if len(body) > SHORT:
        try:
            return await _Reader(body.decode()).read()
        except TooLong:
            raise
        except (_Unusual, ValueError, IndexError, RecursionError):
            if len(body) > LONGEST_ENTRY:
                raise orjson.JSONDecodeError("not a regular document", "", 0) from None
    document: Json = orjson.loads(body)
    return document


async def has_more_values(body: bytes, most: int) -> bool:
    """Whether a JSON text holds more values than that; commas in strings do not count."""
    if len(body) <= SHORT or body.count(b",") < most:
        return False
    slices = Slices()
    commas = 0
    at = 0
    while at < len(body):
        start = body.find(b'"', at)
        end = len(body) if start < 0 else start
        commas += body.count(b",", at, end)
        if commas >= most:
            return True
        at = len(body) if start < 0 else await _end_of_string(body, start + 1, slices)
        await slices.pause()
    return False


async def _end_of_string(body: bytes, at: int, slices: Slices) -> int:
    """Where a string ends whose inside begins at `at`, its last quote included."""
    while True:
        quote = body.find(b'"', at)
        if quote < 0:
            return len(body)
        inside = body[at:quote]
        at = quote + 1
        if (len(inside) - len(inside.rstrip(b"\\"))) % 2 == 0:
            return at
        await slices.pause()


class _Reader:
    """Reads one text from its beginning to its end. Where entries end is found by one parser, what they say by another,
    so that long documents mean what short ones do."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._end_of = JSONDecoder().raw_decode
        self._slices = Slices()

    async def read(self) -> Json:
        document: dict[str, Json] = {}
        self._take("{")
        more = self._next() != "}"
        while more:
            key = self._value()
            if not isinstance(key, str):
                raise _Unusual
            self._take(":")
            document[key] = await self._entries() if self._next() == "[" else self._value()
            more = self._next() == ","
            if more:
                self._at += 1
        self._take("}")
        if self._next():
            raise _Unusual
        return document

    async def _entries(self) -> list[Json]:
        found: list[Json] = []
        self._take("[")
        more = self._next() != "]"
        while more:
            found.append(self._value())
            more = self._next() == ","
            if more:
                self._at += 1
            await self._slices.pause()
        self._take("]")
        return found

    def _next(self) -> str:
        """The next octet that is not space; empty at the end."""
        at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches anything
        self._at = at
        return self._text[at : at + 1]

    def _take(self, wanted: str) -> None:
        if self._next() != wanted:
            raise _Unusual
        self._at += 1

    def _value(self) -> Json:
        self._next()
        start = self._at
        for reach in _REACHES:
            text = self._text[start : start + reach]
            try:
                _, end = self._end_of(text, 0)
            except ValueError:
                if len(text) < reach:
                    raise  # that was all of it
                continue
            if end < len(text) or len(text) < reach:
                value: Json = orjson.loads(text[:end])
                self._at = start + end
                return value
        raise TooLong(f"an entry is longer than {LONGEST_ENTRY} characters")

"""Parses long JSON documents entry by entry, because a parser reads a whole text at once and blocks the loop.

A definitions document is an object with arrays of thousands of entries. Each entry is parsed by itself and has a
maximum length; any other document must be short enough to be parsed at once. For other bodies the number of values is
checked before they are parsed.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Final

import orjson

from rabbitlike.management.listing.lists import Slices

if TYPE_CHECKING:
    from rabbitlike.broker.terms import Json

#: Shorter texts take a fraction of a millisecond to parse.
SHORT: Final = 64 * 1024
#: Maximum characters of an entry, or octets of a document without entries: some milliseconds for a parser.
LONGEST_ENTRY: Final = 256 * 1024
#: Characters searched for the end of an entry, step by step: most entries are short.
_REACHES: Final = (1024, 16 * 1024, LONGEST_ENTRY)
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class TooLong(ValueError):
    """An entry that would take too long to parse."""


class _Unusual(Exception):
    """Not a regular document."""


async def parsed(body: bytes) -> Json:
    """The parsed document. Raises orjson.JSONDecodeError for invalid JSON, TooLong for an entry above the limit."""
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
    """Whether a JSON text holds more than `most` values; commas in strings do not count."""
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
    """The offset behind the closing quote of the string whose content begins at `at`."""
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
    """Reads one text from start to end. The json module finds the ends of entries, orjson parses them, so that long
    documents are parsed like short ones."""

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
        """Skip spaces and return the next character; empty at the end."""
        at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it always matches
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
                    raise  # the text ends here
                continue
            if end < len(text) or len(text) < reach:
                value: Json = orjson.loads(text[:end])
                self._at = start + end
                return value
        raise TooLong(f"an entry is longer than {LONGEST_ENTRY} characters")

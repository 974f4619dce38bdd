"""JSON documents that may be long, read entry by entry: a parser reads all of a text in one go, and nobody else works.

A document of definitions is an object with arrays of thousands of entries. Each entry is a text of its own here; in a
document that is anything else, the parser has all of it and the last word.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Final

import orjson

from rabbitlike.management.lists import Slices

if TYPE_CHECKING:
    from rabbitlike.broker.terms import Json

#: What is shorter takes a fraction of a millisecond.
SHORT: Final = 64 * 1024
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class _Unusual(Exception):
    """Not a regular document."""


async def parsed(body: bytes) -> Json:
    """What the text says; orjson.JSONDecodeError when it says nothing."""
    if len(body) > SHORT:
        try:
            return await _Reader(body.decode()).read()
        except (_Unusual, ValueError, IndexError, RecursionError):
            pass
    document: Json = orjson.loads(body)
    return document


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
            await self._slices.breathe()
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
        _, self._at = self._end_of(self._text, start)
        value: Json = orjson.loads(self._text[start : self._at])
        return value

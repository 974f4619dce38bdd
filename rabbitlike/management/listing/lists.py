"""Answers lists: filters, sorts, paginates, selects columns, and writes in slices.

A list may hold tens of thousands of objects while clients publish on the same thread, so it yields after every quarter
of a millisecond of work. A snapshot fixes which objects are listed; each object is read when it is written, and the
text of the whole list is never in memory. parity: parameters, limits and errors are RabbitMQ's.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from fastapi.responses import Response, StreamingResponse

from rabbitlike.broker.patterns import Pattern, PatternError, TooSlow
from rabbitlike.management.http.errors import ApiError, bad_request
from rabbitlike.management.http.replies import Reply, View, encode
from rabbitlike.management.listing.view_cache import ViewCache

if TYPE_CHECKING:
    from fastapi import Request

T = TypeVar("T")

#: Longest time that a list delays a message; a shorter one would cost more than it gains.
SLICE_S: Final = 0.00025
#: Objects processed between two readings of the time.
STRIDE: Final = 16
#: Lists up to about this length are sorted at once; longer ones in runs of it.
RUN: Final = 1000
DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
MAX_EXPRESSION: Final = 1024

BY_NAME: Final = ("vhost", "name")
#: Greater than any number that a list's default order contains.
ABOVE_ALL: Final = 1 << 32


def _parameter(name: str, said: str, **schema: object) -> dict[str, object]:
    return {"name": name, "in": "query", "required": False, "description": said, "schema": schema}


#: OpenAPI parameters for a route's `openapi_extra`: of every list, and of lists with pagination.
SORTED: Final = {
    "parameters": [
        _parameter("sort", "A field to sort by, dotted: message_stats.publish", type="string"),
        _parameter("sort_reverse", "The other way round.", type="boolean"),
        _parameter("columns", "Fields to show, dotted, with commas between.", type="string"),
    ]
}
PAGED: Final = {
    "parameters": [
        _parameter("page", "Which page; without it all is one array.", type="integer", minimum=1),
        _parameter("page_size", "Objects of a page.", type="integer", minimum=1, maximum=MAX_PAGE_SIZE),
        _parameter("name", "What names contain, of those on pages.", type="string"),
        _parameter("use_regex", "Is that a regular expression?", type="boolean"),
        *SORTED["parameters"],
    ]
}

#: Columns as a tree: None selects everything below.
Columns: TypeAlias = "dict[str, Columns | None]"
#: Order: numbers, atoms such as true and null, tables and arrays, texts. parity: Erlang's term order.
SortKey: TypeAlias = "tuple[int, float | str]"


@dataclass(frozen=True, slots=True)
class Pagination:
    """The page and filter that a request asks for."""

    number: int
    size: int
    name: str
    is_regex: bool


class Slices:
    """Limits work to a quarter of a millisecond at a time: `await slices.pause()` between two steps."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE_S

    @property
    def is_over(self) -> bool:
        return perf_counter() >= self._until

    async def pause(self) -> None:
        """Yield to other tasks if the slice is over."""
        if perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + SLICE_S


def itself(view: View) -> View:
    return view


async def answer(
    request: Request,
    items: Iterable[T],
    view: Callable[[T], View] | None = None,
    *,
    order: Sequence[str] = BY_NAME,
    name_of: Callable[[T], str] | None = None,
    key_of: Callable[[T], tuple[str, ...]] | None = None,
    is_paged: bool = True,
) -> Response:
    """Answer with the list of `items`, each converted by `view`; without `view` the items are views themselves.

    `order` names the fields of the default order. For long lists pass `name_of` (the name that filters compare) and
    `key_of` (the key for `order`), so that no views are made of objects that are not shown.
    """
    show = view if view is not None else cast("Callable[[T], View]", itself)
    page = page_of(request) if is_paged else None
    columns = columns_of(request)
    slices = Slices()
    found: list[T] = []
    for count, item in enumerate(items, 1):
        found.append(item)
        if count % STRIDE == 0:
            await slices.pause()
    total = len(found)
    if page is not None and page.name:
        found = await _filtered(found, page, name_of or (lambda item: str(show(item).get("name", ""))), slices)
    found = await _ordered(found, show, order, key_of, request.query_params.get("sort") or "", slices)
    if request.query_params.get("sort_reverse") == "true":
        found.reverse()
    filtered = len(found)
    if page is not None:
        found = _cut(found, page)
    body = _Body(found, _writer(show, columns), _frame(page, total, filtered, len(found)))
    return await body.respond(slices)


async def _strides(items: Sequence[T], slices: Slices) -> AsyncIterator[Sequence[T]]:
    for at in range(0, len(items), STRIDE):
        yield items[at : at + STRIDE]
        await slices.pause()


async def written(
    request: Request, items: Sequence[T], show: Callable[[T], View], beside: View | None = None, name: str = "items"
) -> Response:
    """Write these items in slices, unsorted: as an array, or as field `name` of an object with the fields `beside`."""
    columns = columns_of(request)
    if beside is None:
        return await _Body(items, _writer(show, columns), (b"[", b"]")).respond(Slices())
    if columns is not None:
        beside = {key: _pick(value, columns[key]) for key, value in beside.items() if key in columns}
        if name not in columns:
            return Reply(beside)
    of_items = None if columns is None else columns[name]
    return await _Body(items, _writer(show, of_items), _around(beside, name)).respond(Slices())


def one(request: Request, view: View, status: int = 200) -> Response:
    """A single object, reduced to the requested columns."""
    return Reply(_pick(view, columns_of(request)), status)


# Query parameters


def page_of(request: Request) -> Pagination | None:
    """The requested page; None: the whole list. parity: without `page`, the other pagination parameters are ignored."""
    number = _number(request, "page")
    size = _number(request, "page_size")
    if number is None:
        return None
    if number < 1 or (size is not None and not 1 <= size <= MAX_PAGE_SIZE):
        raise ApiError(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, page size {'undefined' if size is None else size}",
        )
    name = request.query_params.get("name", "")
    is_regex = request.query_params.get("use_regex") == "true"
    return Pagination(number, DEFAULT_PAGE_SIZE if size is None else size, name, is_regex)


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise bad_request("Pagination parameters are invalid")
    return int(text)


def columns_of(request: Request) -> Columns | None:
    """The requested fields; None: all."""
    text = request.query_params.get("columns")
    if text is None:
        return None
    tree: Columns = {}
    for column in text.split(","):
        *outer, last = [part for part in column.split(".") if part] or [""]
        branch: Columns | None = tree
        for part in outer:
            branch = branch.setdefault(part, {}) if branch is not None else None
        if branch is not None and last:
            branch[last] = None
    return tree


def _pick(value: object, columns: Columns | None) -> object:
    if columns is None:
        return value
    if isinstance(value, Mapping):
        return {key: _pick(value[key], below) for key, below in columns.items() if key in value}
    if isinstance(value, list):
        return [_pick(each, columns) for each in value]
    return value


# Filter, sort, paginate


async def _filtered(found: list[T], page: Pagination, name_of: Callable[[T], str], slices: Slices) -> list[T]:
    matches = _expression(page.name) if page.is_regex else _substring(page.name)
    return [item async for stride in _strides(found, slices) for item in stride if matches(name_of(item))]


def _substring(text: str) -> Callable[[str], bool]:
    wanted = text.lower()
    return lambda name: wanted in name.lower()


def _expression(text: str) -> Callable[[str], bool]:
    """Match with a regular expression. Any management user may send one, so length and time are limited."""
    if len(text) > MAX_EXPRESSION:
        raise bad_request(f"the expression is longer than {MAX_EXPRESSION} characters")
    try:
        pattern = Pattern(text, ignores_case=True)
    except PatternError as problem:
        raise bad_request(f"invalid regular expression: {problem}") from None

    def matches(name: str) -> bool:
        try:
            return pattern.search(name)
        except TooSlow:
            raise bad_request("the expression takes too long") from None

    return matches


async def _ordered(
    found: list[T],
    show: Callable[[T], View],
    order: Sequence[str],
    key_of: Callable[[T], tuple[str, ...]] | None,
    field: str,
    slices: Slices,
) -> list[T]:
    """Sort by `order`, then by the requested field; sorting is stable."""
    paths = [each.split(".") for each in order]
    wanted = field.split(".")
    keys: list[str] = []
    asked: list[SortKey] = []
    async for stride in _strides(found, slices):
        for item in stride:
            view = show(item) if field or key_of is None else {}
            keys.append("\0".join(key_of(item) if key_of is not None else [_text_at(view, path) for path in paths]))
            if field:
                asked.append(_sort_key(view, wanted))
    places = await _sorted(list(range(len(found))), keys, slices)
    if field:
        places = await _sorted(places, asked, slices)
    ordered: list[T] = []
    for at in range(0, len(places), RUN):
        ordered += [found[place] for place in places[at : at + RUN]]
        await slices.pause()
    return ordered


def _value_at(view: View, path: list[str]) -> object:
    value: object = view
    for part in path:
        value = value.get(part, 0) if isinstance(value, Mapping) else 0
    return value


def _text_at(view: View, path: list[str]) -> str:
    """The sort key of a default order, which has names and numbers only: as text, because texts compare fastest."""
    value = _value_at(view, path)
    if isinstance(value, str):
        return value
    # Shifted so that negative numbers sort correctly.
    return f"{value + ABOVE_ALL:024.6f}" if isinstance(value, int | float) else ""


def _sort_key(view: View, path: list[str]) -> SortKey:
    value = _value_at(view, path)
    if isinstance(value, bool) or value is None:
        return (1, "null" if value is None else "true" if value else "false")
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (3, value)
    return (2, 0)


async def _sorted(places: list[int], keys: Sequence[object], slices: Slices) -> list[int]:
    """Sort in steps of about RUN: sort each run, then cut all runs at the same keys and sort each section, which holds
    all keys between two cuts."""
    key_at = cast("Callable[[int], Any]", keys.__getitem__)
    runs = [places[at : at + RUN] for at in range(0, len(places), RUN)]
    for run in runs:
        run.sort(key=key_at)
        await slices.pause()
    if len(runs) < 2:
        return runs[0] if runs else []
    # Sample evenly, about len(runs) keys per run: between every len(runs)-th sample lies about one run's worth.
    samples = sorted(key_at(run[at]) for run in runs for at in range(0, len(run), max(1, len(run) // len(runs))))
    starts = [0] * len(runs)
    whole: list[int] = []
    for cut in dict.fromkeys(samples[len(runs) :: len(runs)]):
        ends = [bisect_left(run, cut, key=key_at) for run in runs]
        whole += sorted(_between(runs, starts, ends), key=key_at)
        await slices.pause()
        # Keys equal to the cut need no sorting: they stay in the order of the runs, which is their original order.
        starts = [bisect_right(run, cut, key=key_at) for run in runs]
        whole += _between(runs, ends, starts)
        await slices.pause()
    whole += sorted(_between(runs, starts, [len(run) for run in runs]), key=key_at)
    return whole


def _between(runs: list[list[int]], starts: list[int], ends: list[int]) -> list[int]:
    return [place for run, start, end in zip(runs, starts, ends, strict=True) for place in run[start:end]]


def _cut(found: list[T], page: Pagination) -> list[T]:
    start = (page.number - 1) * page.size
    if start > len(found):
        raise ApiError(
            400,
            "page_out_of_range",
            f"Page out of range, page: {page.number} page size: {page.size}, len: {len(found)}",
        )
    return found[start : start + page.size]


def _frame(page: Pagination | None, total: int, filtered: int, count: int) -> tuple[bytes, bytes]:
    """The text before and after the items."""
    if page is None:
        return b"[", b"]"
    around = {
        "total_count": total,
        "item_count": count,
        "filtered_count": filtered,
        "page": page.number,
        "page_size": page.size,
        "page_count": (filtered + page.size - 1) // page.size,
    }
    return _around(around, "items")


def _around(beside: View, name: str) -> tuple[bytes, bytes]:
    return encode({**beside, name: []})[:-2], b"]}"


# Write


def _writer(show: Callable[[T], View], columns: Columns | None) -> Callable[[T], bytes]:
    cut = cast("Callable[[View], object]", itself) if columns is None else partial(_pick, columns=columns)
    if isinstance(show, ViewCache):
        return partial(show.write, cut=cut)
    return lambda item: encode(cut(show(item)))


@dataclass(slots=True)
class _Body:
    """The body of a list, and how far it is written."""

    items: Sequence[object]
    write: Callable[..., bytes]
    around: tuple[bytes, bytes]
    at: int = 0

    async def respond(self, slices: Slices) -> Response:
        """A single answer if one slice suffices, else a stream of slices."""
        await slices.pause()
        first = self._slice()
        if self.at == len(self.items):
            return Response(first, media_type="application/json")
        return StreamingResponse(self._stream(first), media_type="application/json")

    async def _stream(self, first: bytes) -> AsyncIterator[bytes]:
        yield first
        while self.at < len(self.items):
            await asyncio.sleep(0)
            yield self._slice()

    def _slice(self) -> bytes:
        """The text of as many items as one slice allows, at least one."""
        slices = Slices()
        parts = []
        start = self.at
        while self.at < len(self.items):
            parts.append(self.write(self.items[self.at]))
            self.at += 1
            if slices.is_over:
                break
        text = b",".join(parts)
        if start == 0:
            text = self.around[0] + text
        elif parts:
            text = b"," + text
        return text + self.around[1] if self.at == len(self.items) else text

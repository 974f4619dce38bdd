"""Texts of objects of which thousands are alike: what they share is written once, what each has of its own each time.

Most queues of a large broker rest, and what is said of one that rests is what is said of the next, but for its name and
little more. Making a view of it and encoding that costs several times as much as its own fields do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from rabbitlike.management.http.replies import View, encode

T = TypeVar("T")

#: So many sorts of objects are told apart in one answer; what is of no known sort then is written by itself.
MOST_SORTS: Final = 256


class ViewCache(Generic[T]):
    """A view, and how to write it for many objects without making it for each. Of one request: it remembers."""

    __slots__ = ("_own", "_rests", "_sort_of", "_view")

    def __init__(
        self, view: Callable[[T], View], sort_of: Callable[[T], Hashable | None], own: Callable[[T], View]
    ) -> None:
        self._view = view
        #: What the fields that are not an object's own depend on; None when that is too much to say.
        self._sort_of = sort_of
        #: The fields that differ among objects of one sort.
        self._own = own
        #: The others as the text that stands behind those, by sort.
        self._rests: dict[Hashable, bytes] = {}

    def __call__(self, item: T) -> View:
        return self._view(item)

    def write(self, item: T, cut: Callable[[View], object]) -> bytes:
        """The text of one; `cut` leaves the fields that are asked for."""
        sort = self._sort_of(item)
        rest = None if sort is None else self._rests.get(sort)
        if rest is None:
            view = self._view(item)
            if sort is None or len(self._rests) >= MOST_SORTS:
                return encode(cut(view))
            own = self._own(item)
            rest = encode(cut({key: value for key, value in view.items() if key not in own}))
            # The end of an object: what comes before the first of its fields is another's.
            rest = self._rests[sort] = b"," + rest[1:] if len(rest) > 2 else b"}"
        text = encode(cut(self._own(item)))
        return text[:-1] + rest if len(text) > 2 or len(rest) == 1 else b"{" + rest[1:]

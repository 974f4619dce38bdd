"""Encodes many similar objects: writes the common fields once, and each object's own fields every time.

Most queues of a large broker are idle, and the views of idle queues differ only in the name and a few other fields.
Making and encoding a whole view costs several times as much as encoding those fields.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from rabbitlike.management.http.replies import View, encode

T = TypeVar("T")

#: Maximum sorts remembered per answer; an object of a further sort is encoded by itself.
MOST_SORTS: Final = 256


class ViewCache(Generic[T]):
    """A view that can also encode many similar objects without making each view. Used for one request: it caches."""

    __slots__ = ("_own", "_rests", "_sort_of", "_view")

    def __init__(
        self, view: Callable[[T], View], sort_of: Callable[[T], Hashable | None], own: Callable[[T], View]
    ) -> None:
        self._view = view
        #: Returns a key that determines all fields except the object's own; None if there is no such key.
        self._sort_of = sort_of
        #: Returns the fields that differ among objects of one sort.
        self._own = own
        #: Encoded common fields by sort; they follow the object's own fields.
        self._rests: dict[Hashable, bytes] = {}

    def __call__(self, item: T) -> View:
        return self._view(item)

    def write(self, item: T, cut: Callable[[View], object]) -> bytes:
        """Encode one object; `cut` selects the requested fields."""
        sort = self._sort_of(item)
        rest = None if sort is None else self._rests.get(sort)
        if rest is None:
            view = self._view(item)
            if sort is None or len(self._rests) >= MOST_SORTS:
                return encode(cut(view))
            own = self._own(item)
            rest = encode(cut({key: value for key, value in view.items() if key not in own}))
            # The tail of an object: each object's own fields precede it.
            rest = self._rests[sort] = b"," + rest[1:] if len(rest) > 2 else b"}"
        text = encode(cut(self._own(item)))
        return text[:-1] + rest if len(text) > 2 or len(rest) == 1 else b"{" + rest[1:]

"""Headers exchange: compares the binding's arguments with the message's headers; the routing key is ignored.

`x-match` sets how many must be equal. Bindings are indexed by header values that they require, so that a message is
compared only with bindings that share a header with it. Results are cached by raw headers until a binding changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.exchanges.exchange import MOST_STEPS, Exchange, exclude, include, too_many_steps
from rabbitlike.broker.exchanges.values import comparable, term
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.protocol.tables import kind_name

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from rabbitlike.broker.bindings import Binding, Identity
    from rabbitlike.broker.exchanges.exchange import Counts, Destination
    from rabbitlike.protocol.properties import Properties
    from rabbitlike.protocol.tables import Table

X_MATCH: Final = "x-match"
MODES: Final = ("all", "any", "all-with-x", "any-with-x")

# Maximum octets of cached raw headers, plus octets for entries and destinations; at the limit the cache is cleared.
CACHE_LIMIT: Final = 1 << 20
CACHE_ENTRY: Final = 64
# Comparing up to this many fields counts as one step.
FEW_FIELDS: Final = 16
# Headers longer than this are rarely sent twice.
CACHED_HEADERS_MAX: Final = 1024


class _Present:
    """The value in a pattern that matches any value of a header."""


PRESENT: Final = _Present()


class _Pattern:
    """The headers that one binding requires."""

    __slots__ = ("destination", "fields", "is_any", "places")

    def __init__(self, binding: Binding) -> None:
        mode = binding.arguments.get(X_MATCH, "all")
        with_x = mode in ("all-with-x", "any-with-x")
        self.destination = binding.destination
        self.is_any = mode in ("any", "any-with-x")
        # parity: a void value requires only presence; names starting with x- count only in the -with-x modes.
        self.fields: dict[str, Hashable] = {
            name: PRESENT if value is None else comparable(value)
            for name, value in binding.arguments.items()
            if name != X_MATCH and (with_x or not name.startswith("x-"))
        }
        #: The (header, value) pairs under which this pattern is indexed.
        self.places: list[tuple[str, Hashable]] = []

    def matches(self, headers: dict[str, Hashable]) -> bool:
        """Whether the headers match. Called only if one of `places` is among them."""
        if self.is_any:
            return True
        for name, value in self.fields.items():
            if value is PRESENT:
                if name not in headers:
                    return False
            elif name not in headers or headers[name] != value:
                return False
        return True


class HeadersExchange(Exchange):
    __slots__ = ("_always", "_cache", "_cached", "_files", "_patterns")

    kind = "headers"
    every_key = False

    def _prepare(self) -> None:
        #: Destinations of bindings with x-match all and no headers, which match every message.
        self._always: Counts = {}
        self._files: dict[tuple[str, Hashable], dict[_Pattern, None]] = {}
        self._patterns: dict[Identity, _Pattern] = {}
        self._cache: dict[bytes, tuple[Destination, ...]] = {}
        self._cached = 0

    @property
    def cacheable(self) -> bool:
        return False

    def check_binding(self, binding: Binding) -> None:
        arguments = binding.arguments
        if X_MATCH not in arguments:
            return
        mode = arguments[X_MATCH]
        if not isinstance(mode, str):
            kind = kind_name(arguments.kind(X_MATCH))
            raise precondition_failed(f"Invalid x-match field type {kind} (value {term(mode)}); expected longstr")
        if mode not in MODES:
            raise precondition_failed(
                f"Invalid x-match field value {term(mode)}; expected all, any, all-with-x, or any-with-x"
            )

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        if not properties.has_headers or not self._files:
            return self._always
        raw = properties.headers_raw
        found = self._cache.get(raw)
        if found is None:
            headers = properties.headers
            found = tuple(self._search(headers)) if headers else tuple(self._always)
            if len(raw) <= CACHED_HEADERS_MAX:
                self._keep(raw, found)
        return found

    def _search(self, table: Table) -> dict[Destination, int]:
        headers = {name: comparable(value) for name, value in table.items()}
        found = self._always.copy()
        files = self._files
        last_step = self.steps + MOST_STEPS
        for name, value in headers.items():
            for place in ((name, value), (name, PRESENT)):
                for pattern in files.get(place, ()):
                    if pattern.matches(headers) and pattern.destination not in found:
                        found[pattern.destination] = 1
                    else:
                        self.steps += 1
                    if len(pattern.fields) > FEW_FIELDS and not pattern.is_any:
                        self.steps += len(pattern.fields)
                    if self.steps > last_step:
                        raise too_many_steps(self)
        return found

    def _keep(self, raw: bytes, found: tuple[Destination, ...]) -> None:
        if self._cached > CACHE_LIMIT:
            self._forget()
        self._cache[raw] = found
        self._cached += CACHE_ENTRY + len(raw) + 8 * len(found)

    def _forget(self) -> None:
        self._cache.clear()
        self._cached = 0

    def _index(self, binding: Binding) -> None:
        pattern = _Pattern(binding)
        if pattern.is_any:
            pattern.places = list(pattern.fields.items())
        elif pattern.fields:
            # One field is sufficient: the least common one keeps the index entries short.
            pattern.places = [min(pattern.fields.items(), key=self._commonness)]
        else:
            include(self._always, binding.destination)
        for place in pattern.places:
            self._files.setdefault(place, {})[pattern] = None
        self._patterns[binding.identity] = pattern
        self._forget()

    def _commonness(self, place: tuple[str, Hashable]) -> tuple[bool, int]:
        return place[1] is PRESENT, len(self._files.get(place, ()))

    def _unindex(self, binding: Binding) -> None:
        pattern = self._patterns.pop(binding.identity)
        if not pattern.is_any and not pattern.fields:
            exclude(self._always, binding.destination)
        for place in pattern.places:
            patterns = self._files[place]
            del patterns[pattern]
            if not patterns:
                del self._files[place]
        self._forget()

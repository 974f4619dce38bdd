"""Topic exchange: binding keys are patterns of words, `*` is one word, `#` any number of them, also none.

The patterns form a trie that is walked once per new routing key, all matching branches side by side, so the time is
bounded by words times nodes whatever the patterns (`#.#.#.a` is no trap). Answers are cached until a binding changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.exchanges.exchange import Exchange, exclude, include

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Counts, Destination
    from rabbitlike.protocol.properties import Properties

# Cached keys and destinations together; at the limit the cache starts anew.
CACHE_LIMIT: Final = 1 << 16


class _Node:
    """One word of some patterns. `many` nodes (the word `#`) stay reached whatever words follow."""

    __slots__ = ("counts", "is_many", "many", "one", "reached", "words")

    def __init__(self, is_many: bool = False) -> None:
        self.words: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.many: _Node | None = None
        self.is_many = is_many
        self.counts: Counts = {}
        #: The last step of a walk that reached this node; only kept for `#`, which can be reached in two ways at once.
        self.reached = 0

    @property
    def is_idle(self) -> bool:
        return not self.counts and not self.words and self.one is None and self.many is None

    def child(self, word: str) -> _Node | None:
        if word == "*":
            return self.one
        if word == "#":
            return self.many
        return self.words.get(word)

    def grow(self, word: str) -> _Node:
        node = self.child(word)
        if node is not None:
            return node
        node = _Node(is_many=word == "#")
        if word == "*":
            self.one = node
        elif word == "#":
            self.many = node
        else:
            self.words[word] = node
        return node

    def prune(self, word: str) -> None:
        if word == "*":
            self.one = None
        elif word == "#":
            self.many = None
        else:
            del self.words[word]


class TopicExchange(Exchange):
    __slots__ = ("_cache", "_cached", "_root", "_step")

    kind = "topic"

    def _prepare(self) -> None:
        self._root = _Node()
        self._step = 0
        self._cache: dict[str, tuple[Destination, ...]] = {}
        self._cached = 0

    def match(self, routing_key: str, properties: Properties) -> Iterable[Destination]:
        found = self._cache.get(routing_key)
        if found is None:
            found = tuple(self._walk(split(routing_key)))
            if self._cached > CACHE_LIMIT:
                self._forget()
            self._cache[routing_key] = found
            self._cached += 1 + len(found)
        return found

    def _walk(self, words: list[str]) -> dict[Destination, int]:
        """The destinations of all patterns that match `words`."""
        reached = [self._root]
        # A `#` node is reached without a word as soon as its parent is: `reached` grows while it is walked.
        self._step = step = self._step + 1
        _expand(reached, step)
        for word in words:
            self._step = step = step + 1
            following: list[_Node] = []
            for node in reached:
                if node.is_many:
                    node.reached = step
                    following.append(node)
                child = node.words.get(word)
                if child is not None:
                    following.append(child)
                if node.one is not None:
                    following.append(node.one)
            if not following:
                return {}
            _expand(following, step)
            reached = following
        if len(reached) == 1:
            return reached[0].counts
        found: dict[Destination, int] = {}
        for node in reached:
            if node.counts:
                found.update(node.counts)
        return found

    def _forget(self) -> None:
        self._cache.clear()
        self._cached = 0

    def _index(self, binding: Binding) -> None:
        node = self._root
        for word in split(binding.routing_key):
            node = node.grow(word)
        include(node.counts, binding.destination)
        self._forget()

    def _unindex(self, binding: Binding) -> None:
        node = self._root
        path: list[tuple[_Node, str]] = []
        for word in split(binding.routing_key):
            path.append((node, word))
            node = node.grow(word)
        exclude(node.counts, binding.destination)
        for parent, word in reversed(path):
            child = parent.child(word)
            if child is None or not child.is_idle:
                break
            parent.prune(word)
        self._forget()


def split(key: str) -> list[str]:
    """The words of a key. parity: an empty key has no words, but `a.` has two and `.` has two empty ones."""
    return key.split(".") if key else []


def _expand(reached: list[_Node], step: int) -> None:
    """Add the `#` children of the nodes reached: `#` matches zero words too."""
    for node in reached:
        many = node.many
        if many is not None and many.reached != step:
            many.reached = step
            reached.append(many)

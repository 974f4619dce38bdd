"""Topic exchange: binding keys are patterns of words; `*` matches one word, `#` any number of words including none.

The patterns form a trie, walked once per new routing key with all matching branches in parallel, so `#.#.#.a` costs no
backtracking. The set of nodes reached by some words is a state. Transitions between states are cached, so that keys
with a common prefix, or that differ only in words that no pattern contains, share their walk. `MOST_STEPS` limits the
worst-case cost, words times nodes. A changed binding clears all caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.exchanges.exchange import MOST_STEPS, Exchange, exclude, include, too_many_steps

if TYPE_CHECKING:
    from collections.abc import Collection

    from rabbitlike.broker.bindings import Binding
    from rabbitlike.broker.exchanges.exchange import Counts, Destination
    from rabbitlike.protocol.properties import Properties

# Maximum number of cached keys plus destinations; at the limit the cache is cleared. The same for nodes in states.
CACHE_LIMIT: Final = 1 << 16
#: Represents all words that are in no pattern: they lead to the same nodes. No word contains a dot.
OTHER: Final = "."


class _Node:
    """One word of some patterns. `many` nodes (the word `#`) stay reached, whatever words follow."""

    __slots__ = ("counts", "is_many", "many", "one", "reached", "words")

    def __init__(self, is_many: bool = False) -> None:
        self.words: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.many: _Node | None = None
        self.is_many = is_many
        self.counts: Counts = {}
        #: The last step of a walk that reached this node; kept only for `#`, which two paths can reach in one step.
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


class _State:
    """The nodes that some words lead to from the root, and the cached transitions to following states."""

    __slots__ = ("_found", "following", "nodes")

    def __init__(self, nodes: list[_Node]) -> None:
        self.nodes = nodes
        self.following: dict[str, _State] = {}
        self._found: tuple[Destination, ...] | None = None

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """The destinations of all patterns that end here; always the same object."""
        if self._found is None:
            found: dict[Destination, int] = {}
            for node in self.nodes:
                if node.counts:
                    found.update(node.counts)
            self._found = tuple(found)
        return self._found


class TopicExchange(Exchange):
    __slots__ = ("_cache", "_cached", "_root", "_start", "_states", "_states_size", "_step", "_words")

    kind = "topic"

    def _prepare(self) -> None:
        self._root = _Node()
        self._step = 0
        #: Number of occurrences of each word in the patterns.
        self._words: dict[str, int] = {}
        self._cache: dict[str, tuple[Destination, ...]] = {}
        self._cached = 0
        self._start: _State | None = None
        self._states: dict[frozenset[_Node], _State] = {}
        self._states_size = 0

    def match(self, routing_key: str, properties: Properties) -> Collection[Destination]:
        found = self._cache.get(routing_key)
        if found is None:
            found = self._walk(split(routing_key))
            if self._cached > CACHE_LIMIT:
                self._cache.clear()
                self._cached = 0
            self._cache[routing_key] = found
            self._cached += 1 + len(found)
        return found

    def _walk(self, words: list[str]) -> tuple[Destination, ...]:
        """The destinations of all patterns that match `words`."""
        last_step = self.steps + MOST_STEPS
        state = self._start
        if state is None:
            self._step += 1
            state = self._start = self._state_of(self._expanded([self._root]))
        known = self._words
        for word in words:
            if word not in known:
                word = OTHER if OTHER not in known else "\0"
            following = state.following.get(word)
            if following is None:
                self.steps += len(state.nodes)
                if self.steps > last_step:
                    raise too_many_steps(self)
                following = state.following[word] = self._state_after(state, word)
            state = following
            if not state.nodes:
                break
        self.steps += len(words)
        return state.destinations

    def _state_after(self, state: _State, word: str) -> _State:
        reached: list[_Node] = []
        self._step = step = self._step + 1
        for node in state.nodes:
            if node.is_many:
                node.reached = step
                reached.append(node)
            child = node.words.get(word)
            if child is not None:
                reached.append(child)
            if node.one is not None:
                reached.append(node.one)
        return self._state_of(self._expanded(reached))

    def _expanded(self, reached: list[_Node]) -> list[_Node]:
        """Add the `#` children of the reached nodes, because `#` also matches zero words."""
        step = self._step
        for node in reached:  # grows during the loop
            many = node.many
            if many is not None and many.reached != step:
                many.reached = step
                reached.append(many)
        return reached

    def _state_of(self, nodes: list[_Node]) -> _State:
        identity = frozenset(nodes)
        state = self._states.get(identity)
        if state is None:
            if self._states_size > CACHE_LIMIT:
                self._forget_states()
            state = self._states[identity] = _State(nodes)
            self._states_size += 1 + len(nodes)
        return state

    def _forget_states(self) -> None:
        for state in self._states.values():
            state.following.clear()  # breaks reference cycles, which are not garbage-collected
        self._states.clear()
        self._states_size = 0
        self._start = None

    def _forget(self) -> None:
        if self._cache or self._states:
            self._cache.clear()
            self._cached = 0
            self._forget_states()

    def _index(self, binding: Binding) -> None:
        node = self._root
        for word in split(binding.routing_key):
            node = node.grow(word)
            include(self._words, word)
        include(node.counts, binding.destination)
        self._forget()

    def _unindex(self, binding: Binding) -> None:
        node = self._root
        path: list[tuple[_Node, str]] = []
        for word in split(binding.routing_key):
            path.append((node, word))
            node = node.grow(word)
            exclude(self._words, word)
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

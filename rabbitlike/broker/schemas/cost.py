"""The maximum cost of validating a document against a JSON Schema, computed before any validation.

A validator follows each `$ref`, `allOf`, `anyOf` … again wherever it appears: 28 definitions that each refer twice to
the next cause 2^28 visits, and a running validator cannot be stopped. `Cost` limits that. Recursive references are not
followed when visits are counted; `Cost.growth` is the factor that they may add.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.terms import Json

#: Maximum visits for one value; a schema with more is refused when it is declared.
MOST_VISITS: Final = 10_000
#: Maximum nesting of subschemas, including references.
MOST_NESTED: Final = 100
#: Maximum number of different regular expressions in a schema: compiling one takes up to 2 ms.
MOST_PATTERNS: Final = 64
#: Maximum visits for all values of a document, some 50 ns each; and maximum octets read by all its scans.
MOST_WORK: Final = 2_000_000
MOST_SCANNED: Final = 4 * 1024 * 1024

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_SAME_VALUE: Final = ("not", "if", "then", "else")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_MAPS: Final[dict[str, str | None]] = {"dependentSchemas": None, "dependencies": None, "patternProperties": "*"}
_WITHIN: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
)
#: The name of a subschema for any inner value: its cost is added to that of each name.
ANY: Final = "*"
#: Visits of a division by a fraction, which is exact for numbers of any size.
_FRACTION: Final = 400
#: An expression with lookaround or backreferences backtracks, up to a thousand times (see schema.py).
_BACKTRACKING: Final = re.compile(r"\(\?[=!<]|\\[1-9kg]")
_RETRIES: Final = 1000
_SCANNING: Final = ("pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType")
#: Members of an enumeration that are compared in the time of one visit.
_MEMBERS: Final = 4

Node = dict[str, "Json"]
#: How a subschema is reached: None for the same value, else the name of the inner value.
Edge = tuple[str | None, Node]


class Cost(NamedTuple):
    """The maximum cost of one value."""

    #: Subschemas that it is compared with, including those of enclosing values.
    visits: int
    #: How many of these read a whole text, as `pattern` does.
    scans: int
    #: In how many ways recursive references lead from a value to the same inner value: each level of a document
    #: multiplies the visits by at most this number. 1 for ordinary recursive schemas (trees, lists).
    growth: int

    def allows(self, document: Json, size: int) -> bool:
        """Whether a document of `size` octets can be validated within the limits."""
        ways = 1
        work = 0
        level: list[Json] = [document]
        while level:
            work += self.visits * ways * len(level)
            if work > MOST_WORK or self.scans * ways * size > MOST_SCANNED:
                return False
            ways *= self.growth
            within: list[Json] = []
            for value in level:
                if isinstance(value, dict):
                    within += value.values()
                elif isinstance(value, list):
                    within += value
            level = within
        return True


class _Known(NamedTuple):
    """The cost of a subschema: visits, scans, and number of recursive references by the last name on the path."""

    visits: int
    scans: int
    backs: Counter[str | None]


def cost_of(schema: Json) -> Cost:
    """Compute the cost of a schema. Raises ValueError if it exceeds the limits."""
    if not isinstance(schema, dict):
        return Cost(1, 0, 1)
    costs = _Costs(schema)
    known = costs.known_of(schema, None, 0)
    if len(costs.patterns) > MOST_PATTERNS:
        raise ValueError(f"the schema has more than {MOST_PATTERNS} different regular expressions")
    backs = [count for name, count in known.backs.items() if name != ANY]
    return Cost(known.visits, known.scans, max(1, max(backs, default=0) + known.backs[ANY]))


class _Costs:
    def __init__(self, schema: Node) -> None:
        self._bases: dict[int, str] = {}
        self._places: dict[str, Node] = {"": schema}
        self._dynamic: dict[str, list[Node]] = {}
        #: All regular expressions.
        self.patterns: set[str] = set()
        self._register(schema, "")
        self._known: dict[int, _Known] = {}
        #: Subschemas on the path to the current one, each with the number of names passed since the root.
        self._above: dict[int, int] = {}

    def _register(self, schema: Node, base: str) -> None:
        """Collect the addresses of all subschemas."""
        left: list[tuple[Json, str]] = [(schema, base)]
        while left:
            value, base = left.pop()
            if isinstance(value, dict):
                given = value.get("$id", value.get("id"))
                if isinstance(given, str):
                    base = urljoin(base, given)
                    self._places.setdefault(urldefrag(base).url, value)
                    self._places.setdefault(base, value)
                for name in ("$anchor", "$dynamicAnchor"):
                    anchor = value.get(name)
                    if isinstance(anchor, str):
                        self._places.setdefault(f"{urldefrag(base).url}#{anchor}", value)
                        if name == "$dynamicAnchor":
                            self._dynamic.setdefault(anchor, []).append(value)
                self._bases[id(value)] = base
                self._note_patterns(value)
                left += ((each, base) for each in value.values())
            elif isinstance(value, list):
                left += ((each, base) for each in value)

    def _note_patterns(self, node: Node) -> None:
        if isinstance(pattern := node.get("pattern"), str):
            self.patterns.add(pattern)
        if isinstance(named := node.get("patternProperties"), dict):
            self.patterns.update(named)

    def known_of(self, node: Node, name: str | None, names: int) -> _Known:
        names += name is not None
        above = self._above.get(id(node))
        if above is not None:
            if above == names:
                raise ValueError("the schema refers to itself without end")
            return _Known(1, 0, Counter([name]))
        known = self._known.get(id(node))
        if known is None:
            if len(self._above) >= MOST_NESTED:
                raise ValueError(f"the schema is nested more than {MOST_NESTED} deep")
            self._above[id(node)] = names
            known = self._known[id(node)] = self._look_at(node, names)
            del self._above[id(node)]
        if name is None:
            return known
        # A reference back to the same value is, seen from the parent, one to an inner value of this name.
        backs = known.backs.copy()
        backs[name] += backs.pop(None, 0)
        return _Known(known.visits, known.scans, backs)

    def _look_at(self, node: Node, names: int) -> _Known:
        visits = _own_visits(node)
        scans = sum(keyword in node for keyword in _SCANNING)
        #: The most expensive inner value stands for all.
        within: Counter[str] = Counter()
        scans_within: Counter[str] = Counter()
        backs: Counter[str | None] = Counter()
        for name, following in self._edges(node):
            known = self.known_of(following, name, names)
            backs.update(known.backs)
            if name is None:
                visits += known.visits
                scans += known.scans
            else:
                within[name] += known.visits
                scans_within[name] += known.scans
        visits += within.pop(ANY, 0) + max(within.values(), default=0)
        scans += scans_within.pop(ANY, 0) + max(scans_within.values(), default=0)
        if visits > MOST_VISITS:
            raise ValueError(f"a value would be compared with more than {MOST_VISITS} parts of the schema")
        return _Known(visits, scans, backs)

    def _edges(self, node: Node) -> Iterator[Edge]:
        for keyword in _REFERENCES:
            if isinstance(reference := node.get(keyword), str):
                for target in self._targets(node, keyword, reference):
                    yield None, target
        for keyword, value in node.items():
            yield from _parts(keyword, value)

    def _targets(self, node: Node, keyword: str, reference: str) -> Iterator[Node]:
        if keyword == "$dynamicRef" and (known := self._dynamic.get(urldefrag(reference).fragment)):
            yield from known
            return
        address = urljoin(self._bases.get(id(node), ""), reference)
        resource, fragment = urldefrag(address)
        target: Json = self._places.get(address)
        if target is None:
            target = self._places.get(resource)
            for part in fragment.split("/")[1:]:
                key = unquote(part).replace("~1", "/").replace("~0", "~")
                if isinstance(target, list):
                    target = target[int(key)] if key.isdecimal() and int(key) < len(target) else None
                else:
                    target = target.get(key) if isinstance(target, dict) else None
        if isinstance(target, dict):
            yield target  # else the compiler refuses the reference, or it is a known metaschema


def _own_visits(node: Node) -> int:
    visits = 1
    for keyword in ("enum", "required"):
        if isinstance(members := node.get(keyword), list):
            visits += len(members) // _MEMBERS
    if isinstance(divisor := node.get("multipleOf"), float) and not divisor.is_integer():
        visits += _FRACTION
    patterns = [node.get("pattern")]
    if isinstance(named := node.get("patternProperties"), dict):
        visits += len(named)
        patterns += named
    visits += _RETRIES * sum(isinstance(each, str) and _BACKTRACKING.search(each) is not None for each in patterns)
    return visits


def _parts(keyword: str, value: Json) -> Iterator[Edge]:
    """The subschemas of one keyword."""
    found: list[tuple[str | None, Json]] = []
    if keyword in _SAME_VALUE:
        found = [(None, value)]
    elif keyword in _LISTS and isinstance(value, list):
        found = [(None, part) for part in value]
    elif keyword in _MAPS and isinstance(value, dict):
        found = [(_MAPS[keyword], part) for part in value.values()]
    elif keyword == "properties" and isinstance(value, dict):
        found = [(f"/{name}", part) for name, part in value.items()]
    elif keyword in ("prefixItems", "items") and isinstance(value, list):
        found = [(str(index), part) for index, part in enumerate(value)]
    elif keyword in _WITHIN:
        found = [(ANY, value)]
    for name, part in found:
        if isinstance(part, dict):
            yield name, part

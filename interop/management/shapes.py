"""Compares two JSON answers: field names, JSON types, and the values that must be the same on both brokers.

Lists of objects are compared item by item, an item's partner being the one with the same names. Numbers: where theirs
is whole ours must be whole; where theirs is a fraction any number will do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

#: What tells one item of a list from another: the first that both lists know.
IDENTITIES: Final[tuple[tuple[str, ...], ...]] = (
    ("consumer_tag",),
    ("source", "destination", "properties_key", "vhost"),
    ("source", "destination", "destination_type", "routing_key"),
    ("user", "vhost"),
    ("user_provided_name",),
    ("user", "number"),
    ("component", "vhost", "name"),
    ("vhost", "name"),
    ("name",),
    ("vhost",),
    ("user",),
    ("protocol",),
)

#: Fields whose values are the topology's own, wherever they stand.
SAME: Final = frozenset(
    """
    name vhost durable auto_delete internal exclusive type arguments consumers policy operator_policy definition
    pattern priority apply-to effective_policy_definition source destination destination_type routing_key
    properties_key user configure write read exchange tags description metadata limits value component messages
    messages_ready messages_unacknowledged messages_persistent message_bytes message_bytes_ready
    message_bytes_unacknowledged exclusive_consumer_tag single_active_consumer_tag consumer_tag prefetch_count
    global_prefetch_count ack_required active activity_status consumer_count confirm transactional
    messages_uncommitted messages_unconfirmed acks_uncommitted number channels channel_max frame_max timeout
    auth_mechanism protocol ssl state peer_host host user_provided_name client_properties is_internal_user publish
    publish_in publish_out deliver deliver_no_ack deliver_get get get_no_ack get_empty redeliver ack return_unroutable
    drop_unroutable total_count item_count filtered_count page page_size page_count tracing status
    """.split()
)


#: Lists of what a broker is made of: the first item of each stands for all.
OWN: Final = frozenset(
    """
    applications auth_mechanisms config_files contexts enabled_plugins exchange_types listeners log_files ports
    protocols
    """.split()
)

Kind = Literal["missing", "more", "other"]


@dataclass(frozen=True)
class Difference:
    question: str
    where: str  # dotted, [] for any item of a list
    what: str
    kind: Kind = "other"

    def __str__(self) -> str:
        return f"{self.question}  {self.where or '(the answer)'}: {self.what}"


@dataclass(frozen=True)
class Allowed:
    """Differences that are meant, and why. Patterns as in file names, several with blanks between."""

    question: str
    where: str
    why: str
    kind: Kind | None = None

    def covers(self, difference: Difference) -> bool:
        return (
            self.kind in (None, difference.kind)
            and any(fnmatchcase(difference.question, question) for question in self.question.split())
            # To fnmatch [] would be a set of characters.
            and any(fnmatchcase(difference.where.replace("[]", ""), where) for where in self.where.split())
        )


def kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "fraction"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "object"


def compare(question: str, theirs: object, ours: object, where: str = "") -> Iterator[Difference]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        yield from _objects(question, theirs, ours, where)
    elif isinstance(theirs, list) and isinstance(ours, list):
        yield from _lists(question, theirs, ours, where)
    elif theirs == [] and ours == {}:
        return  # an empty object is an empty list to Erlang
    elif kind(theirs) != kind(ours) and (kind(theirs), kind(ours)) != ("fraction", "integer"):
        yield Difference(question, where, f"{kind(theirs)} {theirs!r:.60} is here {kind(ours)} {ours!r:.60}")
    elif where.rpartition(".")[2] in SAME and not OWN & set(where.replace("[]", "").split(".")) and theirs != ours:
        yield Difference(question, where, f"{theirs!r:.80} is here {ours!r:.80}")


def _objects(question: str, theirs: dict[str, object], ours: dict[str, object], where: str) -> Iterator[Difference]:
    for field in sorted(theirs.keys() | ours.keys()):
        at = f"{where}.{field}" if where else field
        if field not in ours:
            yield Difference(question, at, f"missing here: {kind(theirs[field])} {theirs[field]!r:.60}", "missing")
        elif field not in theirs:
            yield Difference(question, at, f"only here: {kind(ours[field])} {ours[field]!r:.60}", "more")
        else:
            yield from compare(question, theirs[field], ours[field], at)


def _lists(question: str, theirs: list[object], ours: list[object], where: str) -> Iterator[Difference]:
    at = f"{where}[]"
    if where.rpartition(".")[2] in OWN:
        if theirs and ours:
            yield from compare(question, theirs[0], ours[0], at)
        return
    identity = _identity([*theirs, *ours])
    if identity is None:
        if len(theirs) != len(ours):
            yield Difference(question, at, f"{len(theirs)} items are here {len(ours)}")
        for one, other in zip(theirs, ours, strict=False):
            yield from compare(question, one, other, at)
        return
    left, right = _by(identity, theirs), _by(identity, ours)
    for key in left.keys() | right.keys():
        for one, other in zip(left.get(key, []), right.get(key, []), strict=False):
            yield from compare(question, one, other, at)
        if missing := len(left.get(key, [])) - len(right.get(key, [])):
            said = f"{abs(missing)} {'missing' if missing > 0 else 'only'} here: {key}"
            yield Difference(question, at, said, "missing" if missing > 0 else "more")


def _identity(items: list[object]) -> tuple[str, ...] | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    for identity in IDENTITIES:
        if all(field in item for item in items if isinstance(item, dict) for field in identity):
            return identity
    return None


def _by(identity: tuple[str, ...], items: list[object]) -> dict[tuple[str, ...], list[object]]:
    found: dict[tuple[str, ...], list[object]] = {}
    for item in items:
        assert isinstance(item, dict)
        found.setdefault(tuple(str(item[field]) for field in identity), []).append(item)
    return found

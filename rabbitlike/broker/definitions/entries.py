"""One entry of definitions: checked access to its fields, and its name for error texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rabbitlike.broker.accounts.limits import OF_USER, OF_VHOST, faults
from rabbitlike.broker.terms import term
from rabbitlike.protocol import tables
from rabbitlike.protocol.errors import AmqpError

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.limits import Limits
    from rabbitlike.broker.terms import Json
    from rabbitlike.protocol.tables import Table

#: For each category: the name of an entry, whether it belongs to a vhost, and the fields that identify it.
CATEGORIES: Final[Mapping[str, tuple[str, bool, tuple[str, ...]]]] = {
    "users": ("user", False, ("name",)),
    "vhosts": ("vhost", False, ("name",)),
    "permissions": ("permission", True, ("user",)),
    "topic_permissions": ("topic permission", True, ("user", "exchange")),
    "parameters": ("parameter", True, ("component", "name")),
    "global_parameters": ("global parameter", False, ("name",)),
    "policies": ("policy", True, ("name",)),
    "queues": ("queue", True, ("name",)),
    "exchanges": ("exchange", True, ("name",)),
    "bindings": ("binding", True, ("source", "destination", "routing_key")),
}
MAX_NAME: Final = 255


class DefinitionsError(ValueError):
    """Definitions that cannot be imported; the text names the entry and the reason."""


class Entry:
    """One entry of a category."""

    __slots__ = ("_category", "_values", "vhost")

    def __init__(self, category: str, values: Mapping[str, Json], vhost: str = "") -> None:
        self._category = category
        self._values = values
        self.vhost = vhost

    def __str__(self) -> str:
        kind, is_in_vhost, fields = CATEGORIES[self._category]
        known = " ".join(f"'{self._values.get(field, '?')}'" for field in fields)
        return f"{kind} {known} in vhost '{self.vhost}'" if is_in_vhost else f"{kind} {known}"

    def fault(self, reason: str) -> DefinitionsError:
        return DefinitionsError(reason if reason.startswith(str(self)) else f"{self}: {reason}")

    def __contains__(self, field: str) -> bool:
        return self._values.get(field) is not None

    def __getitem__(self, field: str) -> Json:
        if field not in self._values:
            raise ValueError(f"{field} is missing")
        return self._values[field]

    def get(self, field: str, default: Json = None) -> Json:
        return self._values.get(field, default)

    def said(self, *fields: str) -> dict[str, Json]:
        """The given fields that the entry has."""
        return {field: self._values[field] for field in fields if self._values.get(field) is not None}

    def text(self, field: str) -> str:
        value = self[field]
        if not isinstance(value, str):
            raise ValueError(f"{field} must be a string, not {term(value)}")
        if len(value.encode("utf-8", "surrogatepass")) > MAX_NAME and field in ("name", "vhost", "routing_key"):
            raise ValueError(f"{field} is longer than {MAX_NAME} octets")
        return value

    def optional_text(self, field: str) -> str | None:
        return self.text(field) if field in self else None

    def flag(self, field: str, *, default: bool) -> bool:
        value = self._values.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ValueError(f"{field} must be true or false, not {term(value)}")
        return value

    def table(self, field: str) -> Mapping[str, Json]:
        """An object. parity: a missing field and an empty list mean an empty object."""
        value = self._values.get(field)
        if value is None or value == []:
            return {}
        if not isinstance(value, Mapping):
            raise ValueError(f"{field} must be an object, not {term(value)}")
        return value

    def arguments(self) -> Table:
        """The arguments. Whole JSON numbers become integers, others doubles."""
        try:
            # Encoded and decoded, so that the result is the same as from a client.
            return tables.decode(tables.encode(self.table("arguments")))[0]  # type: ignore[arg-type]
        except (OverflowError, RecursionError, AmqpError) as problem:
            raise ValueError(f"arguments: {problem}") from None

    def tags(self) -> list[str]:
        """The tags, from a list or, as before RabbitMQ 3.9, from a string with commas."""
        value = self._values.get("tags")
        if value is None:
            raise ValueError("tags_not_present")
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"tags must be strings, not {term(value)}")
        return [tag for part in parts if (tag := str(part).strip())]

    def limits(self) -> Limits:
        value = self.table("limits")
        if found := faults(value, OF_USER if self._category == "users" else OF_VHOST, "limits"):
            raise ValueError("; ".join(found))
        return value  # type: ignore[return-value]


def check_document(document: Json, *, is_whole: bool) -> dict[str, Sequence[Mapping[str, Json]]]:
    """The entries by category. Raises DefinitionsError for a malformed document."""
    if not isinstance(document, Mapping):
        raise DefinitionsError(f"definitions must be an object, not {term(document)[:100]}")
    found: dict[str, Sequence[Mapping[str, Json]]] = {}
    for category, (kind, is_in_vhost, _) in CATEGORIES.items():
        entries = document.get(category)
        if entries is None:
            continue
        if not isinstance(entries, list):
            raise DefinitionsError(f"{category} must be a list of objects")
        for values in entries:
            if not isinstance(values, dict):
                raise DefinitionsError(f"{category} must be objects, not {term(values)[:100]}")
            if is_whole and is_in_vhost and not isinstance(values.get("vhost"), str):
                raise DefinitionsError(
                    f"{kind} {term(values.get('name'))} names no virtual host: "
                    "import definitions of a single virtual host into a virtual host"
                )
        found[category] = entries
    return found

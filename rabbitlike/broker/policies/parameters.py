"""Runtime parameters: values that a component keeps per vhost, and global ones that anybody may keep.

parity: a component says which values it takes and hears of changes; nothing is kept for one that is not there. The
limits of a vhost are such a parameter; policies have verbs of their own and are refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from rabbitlike.broker.terms import Json

POLICY: Final = "policy"


class Component(Protocol):
    """Whoever uses parameters of one kind."""

    def faults(self, name: str, value: Json) -> list[str]:
        """What is wrong with a value, in words; nothing: it is taken."""
        ...

    def changed(self, vhost: str, name: str, value: Json) -> None:
        """A parameter is set, or gone (None)."""
        ...


class Parameter(NamedTuple):
    vhost: str
    component: str
    name: str
    value: Json


class Parameters:
    """All parameters by vhost, component and name, and the global ones by name."""

    def __init__(self) -> None:
        self._components: dict[str, Component] = {}
        self._values: dict[tuple[str, str, str], Json] = {}
        self.globals: dict[str, Json] = {}

    def register(self, name: str, component: Component) -> None:
        self._components[name] = component

    def has(self, component: str) -> bool:
        """Is there such a component?"""
        return component in self._components

    def check(self, component: str, name: str, value: Json) -> None:
        """Raise ValueError with RabbitMQ's text unless the component takes this value."""
        if component == POLICY:
            raise ValueError("policies may not be set using this method")
        user = self._components.get(component)
        found = [f"component {component} not found"] if user is None else user.faults(name, value)
        if found:
            raise ValueError("\n".join(["Validation failed\n", *found]) + "\n")

    def set(self, vhost: str, component: str, name: str, value: Json) -> None:
        """Keep a value that was checked."""
        self._values[vhost, component, name] = value
        user = self._components.get(component)
        if user is not None:
            user.changed(vhost, name, value)

    def clear(self, vhost: str, component: str, name: str) -> bool:
        """Whether there was one."""
        if (vhost, component, name) not in self._values:
            return False
        del self._values[vhost, component, name]
        user = self._components.get(component)
        if user is not None:
            user.changed(vhost, name, None)
        return True

    def get(self, vhost: str, component: str, name: str) -> Parameter | None:
        key = (vhost, component, name)
        return Parameter(*key, self._values[key]) if key in self._values else None

    def __iter__(self) -> Iterator[Parameter]:
        return (Parameter(*key, value) for key, value in self._values.items())

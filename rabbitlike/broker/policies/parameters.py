"""Runtime parameters: values of a component per vhost, and global parameters without a component.

parity: a component validates its values and is notified of changes; parameters of unknown components are refused. The
limits of a vhost are such a parameter. Policies have their own methods and are refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from rabbitlike.broker.terms import Json

POLICY: Final = "policy"


class Component(Protocol):
    """The user of one kind of parameters."""

    def faults(self, name: str, value: Json) -> list[str]:
        """The faults of a value, as texts. Empty: the value is accepted."""
        ...

    def changed(self, vhost: str, name: str, value: Json) -> None:
        """Handle a parameter that was set or cleared (None)."""
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
        """Whether this component exists."""
        return component in self._components

    def check(self, component: str, name: str, value: Json) -> None:
        """Raise ValueError with RabbitMQ's text unless the component accepts this value."""
        if component == POLICY:
            raise ValueError("policies may not be set using this method")
        user = self._components.get(component)
        found = [f"component {component} not found"] if user is None else user.faults(name, value)
        if found:
            raise ValueError("\n".join(["Validation failed\n", *found]) + "\n")

    def set(self, vhost: str, component: str, name: str, value: Json) -> None:
        """Store a checked value."""
        self._values[vhost, component, name] = value
        user = self._components.get(component)
        if user is not None:
            user.changed(vhost, name, value)

    def clear(self, vhost: str, component: str, name: str) -> bool:
        """Remove a parameter and return whether it existed."""
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

"""Where we answer otherwise than RabbitMQ, and why. Everything else is a defect."""

from typing import Final

from interop.management.shapes import Allowed

#: Fields that differ.
FIELDS: Final[tuple[Allowed, ...]] = ()

#: Requests answered with another status: ours, and why. Where RabbitMQ stumbles (500) we refuse; not listed.
STATUSES: Final[dict[str, tuple[int, str]]] = {}

#: Refusals in other words, and why.
TEXTS: Final[dict[str, str]] = {}

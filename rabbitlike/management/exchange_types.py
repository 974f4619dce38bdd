"""The exchange types, as the API lists them."""

from __future__ import annotations

from typing import Final

from rabbitlike.broker.exchanges import KINDS

_DESCRIPTIONS: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-delayed-message": "Delayed Message Exchange.",
    "x-modulus-hash": "Modulus Hashing Exchange",
    "x-random": "AMQP Random Exchange",
    "x-recent-history": "Recent History Exchange",
}


def exchange_types() -> list[dict[str, object]]:
    return [{"name": name, "description": _DESCRIPTIONS.get(name, ""), "enabled": True} for name in sorted(KINDS)]

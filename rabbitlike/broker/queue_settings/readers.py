"""Readers of fields of QueueSettings from checked values.

A reader gets all values and the name of its setting; it returns the field's default if nothing is set.
"""

from typing import Final

from rabbitlike.broker.publishing.deduplication import DeduplicationRules, read_rules
from rabbitlike.broker.queue_settings import weights
from rabbitlike.broker.queue_settings.setting import Given
from rabbitlike.broker.queue_settings.settings import TEN_YEARS_MS, DeadLetterStrategy, Overflow, QueueType
from rabbitlike.broker.queues.retry import DELIVERY_LIMIT, RetryRules, read_retry
from rabbitlike.broker.schemas.schema import Schema, read_schema

QUORUM_DEFAULT_PRIORITY: Final = 4
QUORUM_DELIVERY_LIMIT: Final = 20


def integer(given: Given, name: str) -> int | None:
    value = given.values.get(name)
    return value if isinstance(value, int) else None


def time(given: Given, name: str) -> int | None:
    """A time, limited to the maximum for arguments, because a policy may set any time."""
    value = integer(given, name)
    return None if value is None else min(value, TEN_YEARS_MS)


def string(given: Given, name: str) -> str | None:
    value = given.values.get(name)
    return value if isinstance(value, str) else None


def switch(given: Given, name: str) -> bool:
    return given.values.get(name) is True


def optional_switch(given: Given, name: str) -> bool | None:
    value = given.values.get(name)
    return value if isinstance(value, bool) else None


def queue_type(given: Given, _: str) -> QueueType:
    return given.queue_type


def levels(given: Given, _: str) -> int:
    return given.levels


def overflow(given: Given, name: str) -> Overflow:
    wanted = Overflow(given.values.get(name, Overflow.DROP_HEAD))
    if given.queue_type == "quorum" and wanted is Overflow.REJECT_PUBLISH_DLX:
        return Overflow.DROP_HEAD  # parity: quorum queues accept this value and fall back to their default
    return wanted


def strategy(given: Given, name: str) -> DeadLetterStrategy:
    return "at-least-once" if given.values.get(name) == "at-least-once" else "at-most-once"


def webhook(given: Given, _: str) -> str | None:
    return string(given, "dead-letter-webhook") or string(given, "dlq-webhook")


def delivery_limit(given: Given, name: str) -> int | None:
    limit = integer(given, name)
    if limit is not None:
        return limit if limit >= 0 else None  # parity: -1 lifts the limit (RabbitMQ 4)
    if "retry-initial" in given.values:
        return DELIVERY_LIMIT
    return QUORUM_DELIVERY_LIMIT if given.queue_type == "quorum" else None


def default_priority(given: Given, name: str) -> int:
    said = integer(given, name)
    if said is not None:
        return said
    return QUORUM_DEFAULT_PRIORITY if given.queue_type == "quorum" else 0


def priority_weights(given: Given, _: str) -> tuple[int, ...] | None:
    if not _is_weighted(given):
        return None
    return weights.by_level(weights.read(given.values.get("priority-weights")), given.levels)


def priority_max_wait(given: Given, name: str) -> int | None:
    said = time(given, name)
    return weights.DEFAULT_MAX_WAIT_MS if said is None and _is_weighted(given) else said


def _is_weighted(given: Given) -> bool:
    return given.values.get("priority-mode") == "weighted"


def retry(given: Given, _: str) -> RetryRules | None:
    return read_retry(given.values)


def deduplication(given: Given, _: str) -> DeduplicationRules | None:
    return read_rules(given.values)


def schema(given: Given, _: str) -> Schema | None:
    return read_schema(given.values)

"""What a queue obeys: its arguments and policies, read into QueueSettings.

What is read here has passed its checks. Pure: nothing here touches a queue.
"""

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Final, Literal, get_args

from rabbitlike.broker.duplicates import DuplicateRules, read_rules
from rabbitlike.broker.queues import weights
from rabbitlike.broker.queues.retry import DELIVERY_LIMIT, RetryRules, read_retry
from rabbitlike.broker.schemas import Schema, read_schema
from rabbitlike.protocol.tables import Table

QueueType = Literal["classic", "quorum"]
QUEUE_TYPES: Final[tuple[QueueType, ...]] = get_args(QueueType)
DeadLetterStrategy = Literal["at-most-once", "at-least-once"]

TEN_YEARS_MS: Final = 315_360_000_000
DEFAULT_LEVELS: Final = 10
QUORUM_DEFAULT_PRIORITY: Final = 4
QUORUM_DELIVERY_LIMIT: Final = 20


class Overflow(Enum):
    """What gives way when a queue is at its length limit."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue's arguments, read; None where the queue has no such limit."""

    queue_type: QueueType = "classic"
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    #: Of one body, in octets.
    max_message_size: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    #: What was asked for; `holds_letters` says what holds.
    dead_letter_strategy: DeadLetterStrategy = "at-most-once"
    #: Without an exchange, dead letters go to a queue that is kept for them.
    dead_letter_auto: bool = False
    #: Whether the event log is told of its messages; None: if it is told of all.
    trace: bool | None = None
    #: Who is told of deaths: only a policy says so, for whoever may declare queues may not send the broker anywhere.
    dead_letter_webhook: str | None = None
    levels: int = DEFAULT_LEVELS
    default_priority: int = 0
    #: The share of each level, lowest first; None: strictly the highest first.
    weights: tuple[int, ...] | None = None
    priority_max_wait_ms: int | None = None
    duplicates: DuplicateRules | None = None
    schema: Schema | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    #: When a message that failed is tried again; None: at once.
    retry: RetryRules | None = None
    #: How long a consumer may hold a message before it goes back.
    ack_timeout_ms: int | None = None

    @property
    def holds_letters(self) -> bool:
        """Whether dead letters are kept until they can go. parity: whatever is asked for, at-least-once takes a quorum
        queue that has an exchange for them and drops nothing to make room."""
        return (
            self.dead_letter_strategy == "at-least-once"
            and self.queue_type == "quorum"
            and self.dead_letter_exchange is not None
            and self.overflow is Overflow.REJECT_PUBLISH
        )


@cache
def plain_settings(levels: int) -> QueueSettings:
    """What a declaration without arguments comes to: thousands of queues share it."""
    return QueueSettings(levels=levels)


def read_settings(arguments: Table, queue_type: QueueType, default_levels: int = DEFAULT_LEVELS) -> QueueSettings:
    """Read arguments that have passed their checks; `default_levels` has a queue that says nothing of priorities."""
    quorum = queue_type == "quorum"
    overflow = Overflow(arguments.get("x-overflow", Overflow.DROP_HEAD.value))
    if quorum and overflow is Overflow.REJECT_PUBLISH_DLX:
        overflow = Overflow.DROP_HEAD  # parity: quorum queues take the word and fall back to their default
    at_least_once = arguments.get("x-dead-letter-strategy") == "at-least-once"
    limit = optional_int(arguments, "x-delivery-limit")
    if limit is None and "x-retry-initial" in arguments:
        limit = DELIVERY_LIMIT
    elif limit is None and quorum:
        limit = QUORUM_DELIVERY_LIMIT
    elif limit is not None and limit < 0:
        limit = None  # parity: -1 lifts the limit (RabbitMQ 4)
    levels = levels_of(arguments, default_levels)
    is_weighted = arguments.get("x-priority-mode") == "weighted"
    default_priority = optional_int(arguments, "x-default-priority")
    if default_priority is None:
        default_priority = QUORUM_DEFAULT_PRIORITY if quorum else 0
    max_wait_ms = _optional_time(arguments, "x-priority-max-wait")
    if max_wait_ms is None and is_weighted:
        max_wait_ms = weights.DEFAULT_MAX_WAIT_MS
    return QueueSettings(
        queue_type=queue_type,
        message_ttl_ms=_optional_time(arguments, "x-message-ttl"),
        expires_ms=_optional_time(arguments, "x-expires"),
        max_length=optional_int(arguments, "x-max-length"),
        max_length_bytes=optional_int(arguments, "x-max-length-bytes"),
        overflow=overflow,
        max_message_size=optional_int(arguments, "x-max-message-size"),
        dead_letter_exchange=_optional_string(arguments, "x-dead-letter-exchange"),
        dead_letter_routing_key=_optional_string(arguments, "x-dead-letter-routing-key"),
        dead_letter_strategy="at-least-once" if at_least_once else "at-most-once",
        dead_letter_auto=arguments.get("x-dead-letter-auto") is True,
        levels=levels,
        default_priority=default_priority,
        weights=weights.by_level(weights.read(arguments.get("x-priority-weights")), levels) if is_weighted else None,
        priority_max_wait_ms=max_wait_ms,
        duplicates=read_rules(arguments),
        schema=read_schema(arguments),
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=limit,
        consumer_timeout_ms=optional_int(arguments, "x-consumer-timeout"),
        retry=read_retry(arguments),
        trace=_optional_bool(arguments, "x-trace"),
        ack_timeout_ms=_optional_time(arguments, "x-ack-timeout"),
    )


def levels_of(arguments: Table, default_levels: int = DEFAULT_LEVELS) -> int:
    """How many levels a declaration asks for: as it says, or as many as it has weights for."""
    highest = optional_int(arguments, "x-max-priority")
    if highest is not None:
        return highest + 1
    said = weights.read(arguments.get("x-priority-weights"))
    return default_levels if said is None else len(said)


def bounded(settings: QueueSettings, arguments: Table, max_length: int) -> QueueSettings:
    """The same with a limit for a queue that has none, at which it refuses unless it was declared with x-overflow: who
    did not ask for a limit is to hear of it."""
    if not max_length or settings.max_length is not None or settings.max_length_bytes is not None:
        return settings
    overflow = settings.overflow if "x-overflow" in arguments else Overflow.REJECT_PUBLISH
    return replace(settings, max_length=max_length, overflow=overflow)


def int_of(arguments: Table, key: str) -> int:
    """An argument that has been checked to be an integer."""
    value = arguments[key]
    assert isinstance(value, int)
    return value


def optional_int(arguments: Table, key: str) -> int | None:
    return int_of(arguments, key) if key in arguments else None


def _optional_time(arguments: Table, key: str) -> int | None:
    """A policy may say any time; what is longer than an argument could be is as good as that."""
    return min(int_of(arguments, key), TEN_YEARS_MS) if key in arguments else None


def _optional_bool(arguments: Table, key: str) -> bool | None:
    value = arguments.get(key)
    return value if isinstance(value, bool) else None


def _optional_string(arguments: Table, key: str) -> str | None:
    return str(arguments[key]) if key in arguments else None

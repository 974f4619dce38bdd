"""What a queue obeys: QueueSettings, its arguments and policies as the queue keeps them.

The table in broker/queue_settings/ says how each field is read. Pure: nothing here touches a queue.
"""

from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Final, Literal, get_args

from rabbitlike.broker.publishing.deduplication import DeduplicationRules
from rabbitlike.broker.queues.retry import RetryRules
from rabbitlike.broker.schemas.schema import Schema
from rabbitlike.protocol.tables import Table

QueueType = Literal["classic", "quorum"]
QUEUE_TYPES: Final[tuple[QueueType, ...]] = get_args(QueueType)
DeadLetterStrategy = Literal["at-most-once", "at-least-once"]

TEN_YEARS_MS: Final = 315_360_000_000
DEFAULT_LEVELS: Final = 10


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
    #: What was asked for; `holds_dead_letters` says what holds.
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
    deduplication: DeduplicationRules | None = None
    schema: Schema | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    #: When a message that failed is tried again; None: at once.
    retry: RetryRules | None = None
    #: How long a consumer may hold a message before it goes back.
    ack_timeout_ms: int | None = None

    @property
    def holds_dead_letters(self) -> bool:
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


def bounded(settings: QueueSettings, arguments: Table, max_length: int) -> QueueSettings:
    """The same with a limit for a queue that has none, at which it refuses unless it was declared with x-overflow: who
    did not ask for a limit is to hear of it."""
    if not max_length or settings.max_length is not None or settings.max_length_bytes is not None:
        return settings
    overflow = settings.overflow if "x-overflow" in arguments else Overflow.REJECT_PUBLISH
    return replace(settings, max_length=max_length, overflow=overflow)

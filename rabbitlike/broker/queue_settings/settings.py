"""QueueSettings: the effective settings of a queue from its arguments and policies.

The table in broker/queue_settings/ defines how each field is read. Pure: nothing here touches a queue.
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
    """What a queue does at its length limit."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The effective settings of a queue; None means no limit."""

    queue_type: QueueType = "classic"
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    #: Maximum size of a body in octets.
    max_message_size: int | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    #: The requested strategy; see `holds_dead_letters` for the effective one.
    dead_letter_strategy: DeadLetterStrategy = "at-most-once"
    #: Dead letters go to an automatic dead-letter queue if there is no exchange.
    dead_letter_auto: bool = False
    #: Whether the event log records the queue's messages; None: the broker's default.
    trace: bool | None = None
    #: URL notified of dead letters. Only policies set it: users who may only declare queues must not make the broker
    #: send requests to any address.
    dead_letter_webhook: str | None = None
    levels: int = DEFAULT_LEVELS
    default_priority: int = 0
    #: The weight of each level, lowest first; None: strict priority.
    weights: tuple[int, ...] | None = None
    priority_max_wait_ms: int | None = None
    deduplication: DeduplicationRules | None = None
    schema: Schema | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    #: Delays of retries of failed messages; None: no delay.
    retry: RetryRules | None = None
    #: How long a consumer may hold a message before it is requeued.
    ack_timeout_ms: int | None = None

    @property
    def holds_dead_letters(self) -> bool:
        """Whether the queue holds dead letters (at-least-once). parity: this requires a quorum queue with a dead-letter
        exchange and overflow reject-publish, whatever strategy was requested."""
        return (
            self.dead_letter_strategy == "at-least-once"
            and self.queue_type == "quorum"
            and self.dead_letter_exchange is not None
            and self.overflow is Overflow.REJECT_PUBLISH
        )


@cache
def plain_settings(levels: int) -> QueueSettings:
    """The settings of queues declared without arguments, shared by thousands of queues."""
    return QueueSettings(levels=levels)


def bounded(settings: QueueSettings, arguments: Table, max_length: int) -> QueueSettings:
    """The settings with the default length limit, if the queue has no limit. Unless declared with x-overflow, the queue
    then refuses publishes, so that publishers notice a limit that they did not request."""
    if not max_length or settings.max_length is not None or settings.max_length_bytes is not None:
        return settings
    overflow = settings.overflow if "x-overflow" in arguments else Overflow.REJECT_PUBLISH
    return replace(settings, max_length=max_length, overflow=overflow)

"""Translates a queue's configuration between the queue model and arguments and policy keys.

Settings that may change go into a policy for this one queue, named after it. Permanent ones (partitions, ordering) go
into its arguments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from rabbitlike.broker.policies.webhook_urls import masked
from rabbitlike.management.http.bodies import Body
from rabbitlike.management.http.errors import bad_request
from rabbitlike.protocol.tables import Table

if TYPE_CHECKING:
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.broker.terms import Json

#: Prefix of the policy's name; the name of the queue follows.
POLICY_PREFIX: Final = "config:"
#: Above the priority of policies for many queues.
PRIORITY: Final = 1_000

_UNITS_MS: Final = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")


def to_ms(value: object) -> int:
    """Milliseconds from `5s`, `1h30m`, `250ms`, or from a number of milliseconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or not re.fullmatch(f"(?:{_PART.pattern})+", value) or len(value) > 40:
        raise bad_request(f"{value!r} is no time: write it as 5s, 1h30m or 250ms")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(value)))


def to_text(ms: int | None) -> str | None:
    """The inverse of `to_ms`."""
    if ms is None:
        return None
    for unit in ("h", "m", "s"):
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]:.0f}{unit}"
    return f"{ms}ms"


Duration: TypeAlias = Annotated[int, BeforeValidator(to_ms)]


class RetryPolicy(Body):
    max_retries: int | None = None
    initial_backoff: Duration | None = None
    max_backoff: Duration | None = None
    backoff_multiplier: float | None = None
    total_timeout: Duration | None = None


class DeadLetters(Body):
    enabled: bool = True
    topic: str | None = None
    alert_webhook: str | None = None


class Limits(Body):
    max_message_size: Annotated[int, Field(ge=1, lt=1 << 62)] | None = None
    max_queue_depth: int | None = None
    message_ttl: Duration | None = None


class Performance(Body):
    """`batch_size` is accepted and ignored: here the consumer's prefetch sets it."""

    delivery_timeout: Duration | None = None
    batch_size: int | None = None


class QueueConfig(Body):
    partitions: Annotated[int, Field(ge=1, le=1 << 16)] | None = None
    ordering: Literal["none", "partition", "strict"] | None = None
    retry_policy: RetryPolicy = Field(default_factory=RetryPolicy)
    dlq_config: DeadLetters = Field(default_factory=DeadLetters)
    limits: Limits = Field(default_factory=Limits)
    performance: Performance = Field(default_factory=Performance)

    def arguments(self) -> Table:
        """Arguments for the permanent settings."""
        table = Table()
        if self.partitions is not None:
            table.put("x-partitions", self.partitions, "l")
        if self.ordering is not None:
            table["x-ordering"] = self.ordering
        return table

    def definition(self) -> dict[str, Json]:
        """The policy definition for the other settings."""
        retry, dead, limits = self.retry_policy, self.dlq_config, self.limits
        said: dict[str, Json] = {
            "retry-initial": retry.initial_backoff,
            "retry-max-delay": retry.max_backoff,
            "retry-multiplier": retry.backoff_multiplier,
            "retry-timeout": retry.total_timeout,
            "delivery-limit": retry.max_retries,
            "max-length": limits.max_queue_depth,
            "max-message-size": limits.max_message_size,
            # A full queue rejects publishes.
            "overflow": None if limits.max_queue_depth is None else "reject-publish",
            "message-ttl": limits.message_ttl,
            "ack-timeout": self.performance.delivery_timeout,
            "dead-letter-webhook": dead.alert_webhook or None,
        }
        if dead.enabled and dead.topic:
            said |= {"dead-letter-exchange": "", "dead-letter-routing-key": dead.topic}
        else:
            said["dead-letter-auto"] = dead.enabled
        return {key: value for key, value in said.items() if value is not None}


class NewQueue(QueueConfig):
    name: Annotated[str, Field(min_length=1)]


def policy_name(queue: str) -> str:
    return POLICY_PREFIX + queue


def pattern_of(queue: str) -> str:
    return f"^{re.escape(queue)}$"


def config_of(queue: Queue) -> dict[str, object]:
    """The configuration in effect, from arguments, policies and defaults."""
    settings, retry, arguments = queue.settings, queue.settings.retry, queue.arguments
    largest = queue.vhost.broker.settings.max_message_size
    has_exchange = settings.dead_letter_exchange is not None
    own = f"{queue.name}.dlq" if settings.dead_letter_auto else None
    return {
        "partitions": arguments.get("x-partitions", 1),
        "ordering": arguments.get("x-ordering", "none"),
        "retry_policy": {
            "max_retries": settings.delivery_limit,
            "initial_backoff": to_text(retry.initial_ms) if retry is not None else None,
            "max_backoff": to_text(retry.max_delay_ms) if retry is not None else None,
            "backoff_multiplier": retry.multiplier if retry is not None else None,
            "total_timeout": to_text(retry.timeout_ms) if retry is not None else None,
        },
        "dlq_config": {
            "enabled": has_exchange or settings.dead_letter_auto,
            "topic": settings.dead_letter_routing_key if has_exchange else own,
            "alert_webhook": None if settings.dead_letter_webhook is None else masked(settings.dead_letter_webhook),
        },
        "limits": {
            "max_message_size": largest if settings.max_message_size is None else settings.max_message_size,
            "max_queue_depth": settings.max_length,
            "message_ttl": to_text(settings.message_ttl_ms),
        },
        "performance": {"delivery_timeout": to_text(settings.ack_timeout_ms)},
    }

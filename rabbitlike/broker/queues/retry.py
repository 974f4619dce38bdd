"""A queue's retry schedule: when to deliver a failed message again, read from the queue's settings. Pure functions.

Two families of settings exist: in `x-retry-…` the delay grows by a factor; in RabbitMQ 4.3's `x-delayed-retry-…` it
grows by its minimum. If both are given, the first applies. In any case a delay ends when the message's own TTL or the
total retry time ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rabbitlike.broker.states import LOOKED, RETURNED

#: Allowed values of `x-delayed-retry-type`.
RetryType = Literal["all", "failed", "returned", "disabled"]

#: Defaults where only `x-retry-initial` is given.
MULTIPLIER: Final = 2.0
MAX_DELAY_MS: Final = 300_000
DELIVERY_LIMIT: Final = 10
TIMEOUT_MS: Final = 10_800_000

#: Maximum delay in milliseconds.
LONGEST_MS: Final = 315_360_000_000


@dataclass(frozen=True, slots=True)
class RetryRules:
    """The retry schedule of one queue."""

    #: The delay before the second attempt; 0: no attempt is ever delayed.
    initial_ms: int = 0
    #: Factor applied to each delay; None: each delay is longer than the last by the initial one.
    multiplier: float | None = MULTIPLIER
    max_delay_ms: int = LONGEST_MS
    #: Time since publish after which the message is not retried; None: no limit.
    timeout_ms: int | None = None
    #: Whether messages returned by reject, disconnect or timeout are delayed; and those returned by nack.
    delays_failed: bool = True
    delays_returned: bool = True

    def delay_ms(self, attempts: int, cause: int) -> int:
        """Return the delay of a message that was returned for the ``attempts``-th time."""
        if cause == LOOKED or not (self.delays_returned if cause == RETURNED else self.delays_failed):
            return 0
        if self.multiplier is None:
            return min(self.initial_ms * attempts, self.max_delay_ms)
        try:
            return min(round(self.initial_ms * self.multiplier ** (attempts - 1)), self.max_delay_ms)
        except OverflowError:
            return self.max_delay_ms

    def is_over(self, published_at_ms: int, now_ms: int) -> bool:
        """Return whether the total retry time is over."""
        return self.timeout_ms is not None and published_at_ms + self.timeout_ms <= now_ms

    def next_try_ms(self, attempts: int, cause: int, published_at_ms: int, expires_at_ms: int, now_ms: int) -> int:
        """Return when the delay of a message returned now ends; 0: retry at once, -1: do not retry, its time is over.

        The delay also ends when the message expires or when its total retry time ends."""
        if self.is_over(published_at_ms, now_ms):
            return -1
        delay_ms = self.delay_ms(attempts, cause)
        if delay_ms <= 0:
            return 0
        ends_at_ms = now_ms + delay_ms
        if self.timeout_ms is not None:
            ends_at_ms = min(ends_at_ms, published_at_ms + self.timeout_ms)
        return min(ends_at_ms, expires_at_ms) if expires_at_ms else ends_at_ms


def read_retry(values: Mapping[str, object]) -> RetryRules | None:
    """Return the schedule for checked settings, or None if they ask for none."""
    timeout = values.get("retry-timeout")
    timeout_ms = min(timeout, LONGEST_MS) if isinstance(timeout, int) and timeout >= 0 else None
    initial = values.get("retry-initial")
    if isinstance(initial, int):
        multiplier = values.get("retry-multiplier")
        return RetryRules(
            min(initial, LONGEST_MS),
            float(multiplier) if isinstance(multiplier, int | float) else MULTIPLIER,
            _longest(values, "retry-max-delay", MAX_DELAY_MS),
            timeout_ms if timeout is not None else TIMEOUT_MS,
        )
    kind = values.get("delayed-retry-type")
    step = values.get("delayed-retry-min")
    if kind in ("all", "failed", "returned") and isinstance(step, int):
        return RetryRules(
            min(step, LONGEST_MS),
            None,
            _longest(values, "delayed-retry-max", LONGEST_MS),
            timeout_ms,
            delays_failed=kind != "returned",
            delays_returned=kind != "failed",
        )
    return None if timeout_ms is None else RetryRules(timeout_ms=timeout_ms)


def _longest(values: Mapping[str, object], name: str, default_ms: int) -> int:
    value = values.get(name)
    return min(value, LONGEST_MS) if isinstance(value, int) else default_ms

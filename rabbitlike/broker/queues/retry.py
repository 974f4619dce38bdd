"""When a message that failed is tried again: the schedule of a queue, read from its settings. Pure.

Two families of names say the same kind of thing. `x-retry-…` grows by a factor; RabbitMQ 4.3's `x-delayed-retry-…`
grows by steps of its minimum. Where both are given the first rules. Whatever the schedule, a message's own time to
live and the total time end its waiting.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rabbitlike.broker.states import LOOKED, RETURNED

#: What `x-delayed-retry-type` may say.
RetryType = Literal["all", "failed", "returned", "disabled"]

#: What holds where `x-retry-initial` is all that is said.
MULTIPLIER: Final = 2.0
MAX_DELAY_MS: Final = 300_000
DELIVERY_LIMIT: Final = 10
TIMEOUT_MS: Final = 10_800_000

#: No wait is longer.
LONGEST_MS: Final = 315_360_000_000


@dataclass(frozen=True, slots=True)
class RetryRules:
    """The schedule of one queue."""

    #: The wait before the second try; 0: none, ever.
    initial_ms: int = 0
    #: Each wait is so many times the one before; None: each is the first longer than the one before.
    multiplier: float | None = MULTIPLIER
    max_delay_ms: int = LONGEST_MS
    #: Time since publish after which it is not tried again; None: no such time.
    timeout_ms: int | None = None
    #: Messages given back by reject, by a client's end or a deadline wait; and those given back by nack.
    delays_failed: bool = True
    delays_returned: bool = True

    def delay_ms(self, attempts: int, cause: int) -> int:
        """How long a message waits that has come back for the ``attempts``-th time."""
        if cause == LOOKED or not (self.delays_returned if cause == RETURNED else self.delays_failed):
            return 0
        if self.multiplier is None:
            return min(self.initial_ms * attempts, self.max_delay_ms)
        try:
            return min(round(self.initial_ms * self.multiplier ** (attempts - 1)), self.max_delay_ms)
        except OverflowError:
            return self.max_delay_ms

    def is_over(self, published_at_ms: int, now_ms: int) -> bool:
        """Is it too late for another try?"""
        return self.timeout_ms is not None and published_at_ms + self.timeout_ms <= now_ms

    def next_try_ms(self, attempts: int, cause: int, published_at_ms: int, expires_at_ms: int, now_ms: int) -> int:
        """When to look again at a message that has come back now; 0: at once, -1: never, its time is over.

        A wait ends when the next try is due, or already when the message expires or its total time is over."""
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
    """The schedule that checked values of settings ask for; None where they ask for none."""
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

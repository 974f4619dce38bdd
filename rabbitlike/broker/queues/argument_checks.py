"""What each argument of a queue may be: one check per argument, which refuses in RabbitMQ's words.

parity: a refusal is an Erlang term, as RabbitMQ prints it into the text of its 406. Where its versions differ the one
that accepts wins.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from rabbitlike.broker.queues import weights
from rabbitlike.broker.queues.settings import QUEUE_TYPES, TEN_YEARS_MS, Overflow, int_of
from rabbitlike.broker.schemas import ACTIONS, text_of
from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.protocol.tables import Table, kind_name

MAX_PRIORITY: Final = 255

# A check looks at one argument that is present and says why it is refused, as an Erlang term, or None.
Check = Callable[[Table, str], str | None]

_INTEGER_KINDS: Final = frozenset("bBsuIilL")


def _quoted(text: str) -> str:
    """An Erlang string as its pretty printer shows it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def type_name(arguments: Table, key: str) -> str:
    return kind_name(arguments.kind(key))


def _unacceptable(arguments: Table, key: str) -> str:
    return f"{{unacceptable_type,{type_name(arguments, key)}}}"


def any_integer(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) in _INTEGER_KINDS:
        return None
    return _quoted(f"expected integer, got {type_name(arguments, key)}")


def _not_negative(arguments: Table, key: str) -> str | None:
    refusal = any_integer(arguments, key)
    if refusal is None and int_of(arguments, key) < 0:
        return f"{{value_negative,{int_of(arguments, key)}}}"
    return refusal


def _above_zero(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and arguments[key] == 0:
        return "{value_zero,0}"
    return refusal


def _duration(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and int_of(arguments, key) > TEN_YEARS_MS:
        return f"{{value_too_large,{int_of(arguments, key)}}}"
    return refusal


def _duration_above_zero(arguments: Table, key: str) -> str | None:
    return _above_zero(arguments, key) or _duration(arguments, key)


def _highest_priority(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and int_of(arguments, key) > MAX_PRIORITY:
        return f"{{max_value_exceeded,{int_of(arguments, key)}}}"
    return refusal


def _boolean(arguments: Table, key: str) -> str | None:
    return None if arguments.kind(key) == "t" else _unacceptable(arguments, key)


def _string(arguments: Table, key: str) -> str | None:
    return None if arguments.kind(key) == "S" else _unacceptable(arguments, key)


def _one_of(words: tuple[str, ...], refusal: str) -> Check:
    """A string out of a few; `refusal` may show the word that is not among them as {}."""

    def check(arguments: Table, key: str) -> str | None:
        wrong_type = _string(arguments, key)
        if wrong_type is None and arguments[key] not in words:
            return refusal.replace("{}", _quoted(str(arguments[key]))[1:-1])
        return wrong_type

    return check


def _factor(arguments: Table, key: str) -> str | None:
    value = arguments[key]
    if arguments.kind(key) not in _INTEGER_KINDS and arguments.kind(key) not in "fd":
        return _quoted(f"expected number, got {type_name(arguments, key)}")
    assert isinstance(value, int | float)
    # What is no number at all is not above 1 either.
    return None if value >= 1 and value != inf else f"{{value_too_{'large' if value == inf else 'small'},{value}}}"


def _dead_letter_routing_key(arguments: Table, key: str) -> str | None:
    refusal = _string(arguments, key)
    if refusal is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    return refusal


def _weights(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) not in "SA":
        return _unacceptable(arguments, key)
    said = weights.read(arguments[key])
    if said is None:
        return _quoted(f"expected weights from 1 to {weights.LARGEST_WEIGHT}, the highest level's first")
    highest = arguments.get("x-max-priority")
    if isinstance(highest, int) and len(said) > highest + 1:
        return _quoted(f"{len(said)} weights for {highest + 1} levels")
    return None


def _schema(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) not in "SF":
        return _unacceptable(arguments, key)
    try:
        text_of(arguments[key])
    except ValueError as error:
        return _quoted(f"invalid schema: {error}")
    return None


def _queue_version(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and arguments[key] not in (1, 2):
        return _quoted(f"unsupported queue version '{int_of(arguments, key)}'")
    return refusal


CHECKS: Final[Mapping[str, Check]] = {
    "x-expires": _duration_above_zero,
    "x-message-ttl": _duration,
    "x-dead-letter-exchange": _string,
    "x-dead-letter-routing-key": _dead_letter_routing_key,
    "x-dead-letter-auto": _boolean,
    "x-dead-letter-strategy": _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-message-size": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _highest_priority,
    "x-default-priority": _highest_priority,
    "x-priority-mode": _one_of(("strict", "weighted"), "\"unsupported priority mode '{}'\""),
    "x-priority-weights": _weights,
    "x-priority-max-wait": _duration_above_zero,
    "x-message-deduplication": _boolean,
    "x-schema": _schema,
    "x-schema-action": _one_of(ACTIONS, "\"unsupported schema action '{}'\""),
    "x-cache-size": _above_zero,
    "x-cache-ttl": _duration_above_zero,
    "x-deduplication-by": _one_of(("header", "message-id"), "\"unsupported deduplication key '{}'\""),
    "x-overflow": _one_of(tuple(kind.value for kind in Overflow), "invalid_overflow"),
    "x-queue-mode": _one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    "x-trace": _boolean,
    "x-consumer-timeout": _not_negative,
    "x-ack-timeout": _duration_above_zero,
    "x-retry-initial": _duration_above_zero,
    "x-retry-multiplier": _factor,
    "x-retry-max-delay": _duration_above_zero,
    "x-retry-timeout": any_integer,
    "x-delayed-retry-type": _one_of(("all", "failed", "returned", "disabled"), "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _above_zero,
    "x-delayed-retry-max": _above_zero,
    # Streams are not served yet and get the answer any type unknown to the broker gets.
    "x-queue-type": _one_of(QUEUE_TYPES, "\"unsupported queue type '{}'\""),
    "x-quorum-initial-group-size": _above_zero,
    "x-delivery-limit": any_integer,
    "x-queue-leader-locator": _one_of(
        ("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"
    ),
}


def require(arguments: Table, key: str, place: str, check: Check | None = None) -> None:
    """406 if the argument is there and does not pass its check, or the one that is given."""
    if key in arguments:
        refusal = (check or CHECKS[key])(arguments, key)
        if refusal is not None:
            raise precondition_failed(f"invalid arg '{key}' for {place}: {refusal}")

"""What a queue was declared with: its arguments checked, read into QueueSettings and compared on redeclare.

parity: checks run in RabbitMQ 3.13's order and say its words. Where its versions differ the one that accepts wins;
arguments nobody knows are accepted and ignored. Pure: nothing here touches a queue.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import Final, Literal, Protocol, get_args

from rabbitlike.broker.duplicates import DuplicateRules, read_rules
from rabbitlike.broker.queues import weights
from rabbitlike.broker.queues.retry import DELIVERY_LIMIT, RetryRules, read_retry
from rabbitlike.broker.schemas import ACTIONS, Schema, read_schema, text_of
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.protocol.tables import Table, Value, kind_name, same_value

QueueType = Literal["classic", "quorum"]
QUEUE_TYPES: Final[tuple[QueueType, ...]] = get_args(QueueType)
DeadLetterStrategy = Literal["at-most-once", "at-least-once"]

TEN_YEARS_MS: Final = 315_360_000_000
MAX_PRIORITY: Final = 255
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


# A check looks at one argument that is present and says why it is refused, as an Erlang term, or None.
Check = Callable[[Table, str], str | None]

_INTEGER_KINDS: Final = frozenset("bBsuIilL")


def _quoted(text: str) -> str:
    """An Erlang string as its pretty printer shows it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _type_name(arguments: Table, key: str) -> str:
    return kind_name(arguments.kind(key))


def _unacceptable(arguments: Table, key: str) -> str:
    return f"{{unacceptable_type,{_type_name(arguments, key)}}}"


def _integer(arguments: Table, key: str) -> str | None:
    if arguments.kind(key) in _INTEGER_KINDS:
        return None
    return _quoted(f"expected integer, got {_type_name(arguments, key)}")


def _not_negative(arguments: Table, key: str) -> str | None:
    refusal = _integer(arguments, key)
    if refusal is None and _int(arguments, key) < 0:
        return f"{{value_negative,{_int(arguments, key)}}}"
    return refusal


def _above_zero(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and arguments[key] == 0:
        return "{value_zero,0}"
    return refusal


def _duration(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and _int(arguments, key) > TEN_YEARS_MS:
        return f"{{value_too_large,{_int(arguments, key)}}}"
    return refusal


def _duration_above_zero(arguments: Table, key: str) -> str | None:
    return _above_zero(arguments, key) or _duration(arguments, key)


def _highest_priority(arguments: Table, key: str) -> str | None:
    refusal = _not_negative(arguments, key)
    if refusal is None and _int(arguments, key) > MAX_PRIORITY:
        return f"{{max_value_exceeded,{_int(arguments, key)}}}"
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
        return _quoted(f"expected number, got {_type_name(arguments, key)}")
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
        return _quoted(f"unsupported queue version '{_int(arguments, key)}'")
    return refusal


_CHECKS: Final[Mapping[str, Check]] = {
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
    "x-retry-timeout": _integer,
    "x-delayed-retry-type": _one_of(("all", "failed", "returned", "disabled"), "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _above_zero,
    "x-delayed-retry-max": _above_zero,
    # Streams are not served yet and get the answer any type unknown to the broker gets.
    "x-queue-type": _one_of(QUEUE_TYPES, "\"unsupported queue type '{}'\""),
    "x-quorum-initial-group-size": _above_zero,
    "x-delivery-limit": _integer,
    "x-queue-leader-locator": _one_of(
        ("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"
    ),
}

# Which arguments each type takes, in the order a redeclare compares them.
# parity: RabbitMQ's classic queues refuse x-delivery-limit (and before 4.0 the leader locator); here they take both.
_TAKEN: Final[Mapping[QueueType, tuple[str, ...]]] = {
    "classic": (
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-delivery-limit",
    ),
    "quorum": (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
    ),
}
# Arguments of ours that every type takes.
_OURS: Final = (
    "x-ack-timeout",
    "x-dead-letter-auto",
    "x-default-priority",
    "x-max-message-size",
    "x-priority-mode",
    "x-priority-weights",
    "x-priority-max-wait",
    "x-schema",
    "x-schema-action",
    "x-message-deduplication",
    "x-cache-size",
    "x-cache-ttl",
    "x-deduplication-by",
    "x-retry-initial",
    "x-retry-multiplier",
    "x-retry-max-delay",
    "x-retry-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-trace",
)
#: Of ours, what an exchange can be told as well.
EXCHANGES_TOO: Final = (
    "x-schema",
    "x-schema-action",
    "x-message-deduplication",
    "x-cache-size",
    "x-cache-ttl",
    "x-deduplication-by",
)
_STREAM_ONLY: Final = ("x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size")
_TYPED: Final = frozenset(_TAKEN["classic"] + _TAKEN["quorum"] + _STREAM_ONLY)

# Texts name the type by RabbitMQ's module.
_MODULES: Final[Mapping[QueueType, str]] = {"classic": "rabbit_classic_queue", "quorum": "rabbit_quorum_queue"}

_PLAIN: Final = QueueSettings()


def parse(
    arguments: Table, *, queue: str, vhost: str, durable: bool, exclusive: bool, auto_delete: bool
) -> QueueSettings:
    """Check a new queue's arguments and flags, and read them. Raises 406."""
    if not arguments:
        return _PLAIN
    place = _place(queue, vhost)
    dead_letter_exchange(arguments, queue=queue, vhost=vhost)
    _require(arguments, "x-queue-type", place)
    queue_type = queue_type_of(arguments)
    for key in _CHECKS:
        if key in arguments and (key not in _TYPED or key in _TAKEN[queue_type]):
            _require(arguments, key, place)
    for key in arguments:
        if key in _TYPED and key not in _TAKEN[queue_type]:
            raise precondition_failed(f"invalid arg '{key}' for {place} of queue type {_MODULES[queue_type]}")
    if queue_type == "quorum":
        _check_quorum_flags(place, durable=durable, exclusive=exclusive, auto_delete=auto_delete)
    return read_settings(arguments, queue_type)


def check_exchange(arguments: Table, place: str) -> None:
    """Those arguments of a new exchange that mean the same as a queue's. Raises 406."""
    for key in EXCHANGES_TOO:
        _require(arguments, key, place)


def queue_type_of(arguments: Table) -> QueueType:
    """The type a declaration asks for; classic unless it says otherwise."""
    return "quorum" if arguments.get("x-queue-type") == "quorum" else "classic"


def queue_type_named(name: str) -> QueueType:
    """A type by its name, or by the name of RabbitMQ's module. Raises ValueError."""
    for known in QUEUE_TYPES:
        if name in (known, _MODULES[known]):
            return known
    raise ValueError(f"{name} is not a valid queue type")


def with_queue_type(arguments: Table, queue_type: QueueType) -> Table:
    """A declaration that names no type, with the vhost's default in it."""
    arguments = Table(arguments)
    arguments.put("x-queue-type", queue_type, "S")
    return arguments


def check_server_named(arguments: Table) -> None:
    """Only classic queues may leave their name to the broker. Raises 406."""
    if queue_type_of(arguments) == "quorum":
        raise precondition_failed(f"Cannot declare a server-named queue for type {_MODULES['quorum']}")


def dead_letter_exchange(arguments: Table, *, queue: str, vhost: str) -> str | None:
    """The DLX a declaration names: permission on it is needed before anything else is checked. Raises 406."""
    key = "x-dead-letter-exchange"
    if key not in arguments:
        return None
    if arguments.kind(key) != "S":
        raise precondition_failed(
            f"invalid type '{_type_name(arguments, key)}' for arg '{key}' in {_place(queue, vhost)}"
        )
    return str(arguments[key])


def consumer_ack_timeout(arguments: Table, *, queue: str, vhost: str) -> int | None:
    """The x-ack-timeout of a basic.consume in ms; None: the queue's holds. Raises 406."""
    _require(arguments, "x-ack-timeout", _place(queue, vhost))
    return _optional_int(arguments, "x-ack-timeout")


def consumer_priority(arguments: Table, *, queue: str, vhost: str) -> int:
    """The x-priority of a basic.consume: any integer, 0 when absent. Raises 406."""
    if "x-priority" not in arguments:
        return 0
    refusal = _integer(arguments, "x-priority")
    if refusal is not None:
        raise _invalid("x-priority", _place(queue, vhost), refusal)
    return _int(arguments, "x-priority")


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Declared(Protocol):
    """What a redeclare is compared with: the part of a queue seen from here."""

    @property
    def name(self) -> str: ...
    @property
    def vhost(self) -> Named: ...
    @property
    def durable(self) -> bool: ...
    @property
    def auto_delete(self) -> bool: ...
    @property
    def arguments(self) -> Table: ...
    @property
    def settings(self) -> QueueSettings: ...


def check_equivalent(
    queue: Declared, *, durable: bool, auto_delete: bool, arguments: Table, queue_type: QueueType | None = None
) -> None:
    """Refuse a redeclare that says something else than the queue's declaration did. Raises 406.

    Exclusiveness is the caller's to check, first: it is about access, not equality. `queue_type` picks whose
    arguments are compared; by default the queue's own.
    """
    place = _place(queue.name, queue.vhost.name)
    if durable != queue.durable:
        raise _inequivalent("durable", place, _flag(durable), _flag(queue.durable))
    if auto_delete != queue.auto_delete:
        raise _inequivalent("auto_delete", place, _flag(auto_delete), _flag(queue.auto_delete))
    for key in (*_TAKEN[queue_type or queue.settings.queue_type], *_OURS):
        _check_same(key, place, arguments, queue.arguments)


def _check_same(key: str, place: str, received: Table, current: Table) -> None:
    if key in received and key in current:
        if not same_value(received[key], current[key]):
            # parity: types are told only when one side has nothing.
            raise _inequivalent(key, place, f"'{_shown(received[key])}'", f"'{_shown(current[key])}'")
    elif key in received or key in current:
        if key == "x-queue-type" and "classic" in (received.get(key), current.get(key)):
            return  # parity: saying classic is saying nothing
        raise _inequivalent(key, place, _told(received, key), _told(current, key))


def _inequivalent(key: str, place: str, received: str, current: str) -> AmqpError:
    return precondition_failed(f"inequivalent arg '{key}' for {place}: received {received} but current is {current}")


def _told(arguments: Table, key: str) -> str:
    if key not in arguments:
        return "none"
    return f"the value '{_shown(arguments[key])}' of type '{_type_name(arguments, key)}'"


def _flag(value: bool) -> str:
    return "'true'" if value else "'false'"


def _shown(value: Value) -> str:
    """A value as RabbitMQ's texts show it."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _place(queue: str, vhost: str) -> str:
    return f"queue '{queue}' in vhost '{vhost}'"


def _invalid(key: str, place: str, refusal: str) -> AmqpError:
    return precondition_failed(f"invalid arg '{key}' for {place}: {refusal}")


def _require(arguments: Table, key: str, place: str) -> None:
    if key in arguments:
        refusal = _CHECKS[key](arguments, key)
        if refusal is not None:
            raise _invalid(key, place, refusal)


def _check_quorum_flags(place: str, *, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    if auto_delete:
        raise precondition_failed(f"invalid property 'auto-delete' for {place}")
    if exclusive:
        raise precondition_failed(f"invalid property 'exclusive-owner' for {place}")
    if not durable:
        raise precondition_failed(f"invalid property 'non-durable' for {place}")


def _int(arguments: Table, key: str) -> int:
    """An argument that has been checked to be an integer."""
    value = arguments[key]
    assert isinstance(value, int)
    return value


def _optional_int(arguments: Table, key: str) -> int | None:
    return _int(arguments, key) if key in arguments else None


def _optional_time(arguments: Table, key: str) -> int | None:
    """A policy may say any time; what is longer than an argument could be is as good as that."""
    return min(_int(arguments, key), TEN_YEARS_MS) if key in arguments else None


def _optional_bool(arguments: Table, key: str) -> bool | None:
    value = arguments.get(key)
    return value if isinstance(value, bool) else None


def _optional_string(arguments: Table, key: str) -> str | None:
    return str(arguments[key]) if key in arguments else None


def bounded(settings: QueueSettings, arguments: Table, max_length: int) -> QueueSettings:
    """The same with a limit for a queue that has none, at which it refuses unless it was declared with x-overflow: who
    did not ask for a limit is to hear of it."""
    if not max_length or settings.max_length is not None or settings.max_length_bytes is not None:
        return settings
    overflow = settings.overflow if "x-overflow" in arguments else Overflow.REJECT_PUBLISH
    return replace(settings, max_length=max_length, overflow=overflow)


def levels_of(arguments: Table) -> int:
    """How many levels a declaration asks for: as it says, or as many as it has weights for."""
    highest = _optional_int(arguments, "x-max-priority")
    if highest is not None:
        return highest + 1
    said = weights.read(arguments.get("x-priority-weights"))
    return DEFAULT_LEVELS if said is None else len(said)


def read_settings(arguments: Table, queue_type: QueueType) -> QueueSettings:
    """Read arguments that have passed their checks."""
    quorum = queue_type == "quorum"
    overflow = Overflow(arguments.get("x-overflow", Overflow.DROP_HEAD.value))
    if quorum and overflow is Overflow.REJECT_PUBLISH_DLX:
        overflow = Overflow.DROP_HEAD  # parity: quorum queues take the word and fall back to their default
    at_least_once = arguments.get("x-dead-letter-strategy") == "at-least-once" and overflow is Overflow.REJECT_PUBLISH
    limit = _optional_int(arguments, "x-delivery-limit")
    if limit is None and "x-retry-initial" in arguments:
        limit = DELIVERY_LIMIT
    elif limit is None and quorum:
        limit = QUORUM_DELIVERY_LIMIT
    elif limit is not None and limit < 0:
        limit = None  # parity: -1 lifts the limit (RabbitMQ 4)
    levels = levels_of(arguments)
    is_weighted = arguments.get("x-priority-mode") == "weighted"
    default_priority = _optional_int(arguments, "x-default-priority")
    if default_priority is None:
        default_priority = QUORUM_DEFAULT_PRIORITY if quorum else 0
    max_wait_ms = _optional_time(arguments, "x-priority-max-wait")
    if max_wait_ms is None and is_weighted:
        max_wait_ms = weights.DEFAULT_MAX_WAIT_MS
    return QueueSettings(
        queue_type=queue_type,
        message_ttl_ms=_optional_time(arguments, "x-message-ttl"),
        expires_ms=_optional_time(arguments, "x-expires"),
        max_length=_optional_int(arguments, "x-max-length"),
        max_length_bytes=_optional_int(arguments, "x-max-length-bytes"),
        overflow=overflow,
        max_message_size=_optional_int(arguments, "x-max-message-size"),
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
        consumer_timeout_ms=_optional_int(arguments, "x-consumer-timeout"),
        retry=read_retry(arguments),
        trace=_optional_bool(arguments, "x-trace"),
        ack_timeout_ms=_optional_time(arguments, "x-ack-timeout"),
    )

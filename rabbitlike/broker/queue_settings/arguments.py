"""Arguments of a declaration: checks, reads and compares them on redeclare.

parity: checks run in RabbitMQ 3.13's order and use its error texts; unknown arguments are accepted and ignored. Pure:
nothing here touches a queue.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, Protocol

from rabbitlike.broker.queue_settings.argument_checks import any_integer, require, type_name
from rabbitlike.broker.queue_settings.numbers import with_numbers
from rabbitlike.broker.queue_settings.setting import Origin, Setting
from rabbitlike.broker.queue_settings.settings import (
    DEFAULT_LEVELS,
    QUEUE_TYPES,
    QueueSettings,
    QueueType,
    plain_settings,
)
from rabbitlike.broker.queue_settings.table import ARGUMENTS, EXCHANGES, levels_of, read_settings, values_of
from rabbitlike.protocol.errors import AmqpError, precondition_failed
from rabbitlike.protocol.tables import Table, Value, same_value

#: The order of checks.
_PLACES: Final = {setting: place for place, setting in enumerate(ARGUMENTS.values())}
STREAM_OFFSET: Final = "x-stream-offset"
#: parity: the order in which a redeclare of a quorum queue compares RabbitMQ's arguments. For other queues it is the
#: table's order.
_QUORUM_ORDER: Final = (
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
)

# Error texts name a type by RabbitMQ's module.
_MODULES: Final[Mapping[QueueType, str]] = {"classic": "rabbit_classic_queue", "quorum": "rabbit_quorum_queue"}


def parse(
    arguments: Table,
    *,
    queue: str,
    vhost: str,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    levels: int = DEFAULT_LEVELS,
) -> QueueSettings:
    """Check and read a new queue's arguments and flags; `levels` applies if they set none. Raises 406."""
    if not arguments:
        return plain_settings(levels)
    place = _place(queue, vhost)
    dead_letter_exchange(arguments, queue=queue, vhost=vhost)
    _require(arguments, ARGUMENTS["x-queue-type"], place)
    queue_type = queue_type_of(arguments)
    known = [ARGUMENTS[key] for key in arguments if key in ARGUMENTS]
    for setting in sorted(known, key=_PLACES.__getitem__):
        if setting.is_for(queue_type):
            _require(arguments, setting, place)
    for setting in known:
        if not setting.is_for(queue_type):
            raise _not_for_type(setting.key, place, queue_type)
    if queue_type == "quorum":
        _check_quorum_flags(place, durable=durable, exclusive=exclusive, auto_delete=auto_delete)
    return read_settings(values_of(arguments, {}, queue_type), queue_type, levels_of(arguments, levels))


def check_exchange(arguments: Table, place: str) -> None:
    """Check the arguments of a new exchange that queues have too. Raises 406."""
    for setting in EXCHANGES:
        _require(arguments, setting, place)


def _require(arguments: Table, setting: Setting, place: str) -> None:
    if setting.argument is not None and setting.argument.check is not None:
        require(arguments, setting.key, place, setting.argument.check)


def queue_type_of(arguments: Table) -> QueueType:
    """The queue type of a declaration; classic by default."""
    return "quorum" if arguments.get("x-queue-type") == "quorum" else "classic"


def queue_type_named(name: str) -> QueueType:
    """A type by its name, or by the name of RabbitMQ's module. Raises ValueError."""
    for known in QUEUE_TYPES:
        if name in (known, _MODULES[known]):
            return known
    raise ValueError(f"{name} is not a valid queue type")


def is_queue_type(name: str) -> bool:
    """Whether there is a queue type with this name."""
    return any(name in (known, _MODULES[known]) for known in QUEUE_TYPES)


def with_queue_type(arguments: Table, queue_type: QueueType) -> Table:
    """The arguments of a declaration with x-queue-type set."""
    arguments = Table(arguments)
    arguments.put("x-queue-type", queue_type, "S")
    return arguments


def check_server_named(arguments: Table) -> None:
    """Raise 406 unless the queue is classic: only classic queues may be server-named."""
    if queue_type_of(arguments) == "quorum":
        raise precondition_failed(f"Cannot declare a server-named queue for type {_MODULES['quorum']}")


def dead_letter_exchange(arguments: Table, *, queue: str, vhost: str) -> str | None:
    """The DLX of a declaration, whose permission is checked before anything else. Raises 406."""
    key = "x-dead-letter-exchange"
    if key not in arguments:
        return None
    if arguments.kind(key) != "S":
        raise precondition_failed(
            f"invalid type '{type_name(arguments, key)}' for arg '{key}' in {_place(queue, vhost)}"
        )
    return str(arguments[key])


def _not_for_type(key: str, place: str, queue_type: QueueType) -> AmqpError:
    return precondition_failed(f"invalid arg '{key}' for {place} of queue type {_MODULES[queue_type]}")


def check_consumer(arguments: Table, *, queue: str, vhost: str, queue_type: QueueType) -> None:
    """Refuse arguments for consuming from streams. Raises 406."""
    if STREAM_OFFSET in arguments:
        raise _not_for_type(STREAM_OFFSET, _place(queue, vhost), queue_type)


def consumer_ack_timeout(arguments: Table, *, queue: str, vhost: str) -> int | None:
    """The x-ack-timeout of a basic.consume in ms; None: the queue's timeout applies. Raises 406."""
    arguments = with_numbers(arguments)
    _require(arguments, ARGUMENTS["x-ack-timeout"], _place(queue, vhost))
    timeout_ms = arguments.get("x-ack-timeout")
    return timeout_ms if isinstance(timeout_ms, int) else None


def consumer_priority(arguments: Table, *, queue: str, vhost: str) -> int:
    """The x-priority of a basic.consume: any integer, 0 when absent. Raises 406."""
    require(arguments, "x-priority", _place(queue, vhost), any_integer)
    priority = arguments.get("x-priority")
    return priority if isinstance(priority, int) else 0


class Named(Protocol):
    @property
    def name(self) -> str: ...


class Declared(Protocol):
    """The part of a queue that a redeclare is compared with."""

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
    """Refuse a redeclare that differs from the queue's declaration. Raises 406.

    The caller checks exclusiveness first, which is about access, not equality. `queue_type` selects the arguments to
    compare; by default those of the queue's type.
    """
    place = _place(queue.name, queue.vhost.name)
    if durable != queue.durable:
        raise _inequivalent("durable", place, _flag(durable), _flag(queue.durable))
    if auto_delete != queue.auto_delete:
        raise _inequivalent("auto_delete", place, _flag(auto_delete), _flag(queue.auto_delete))
    for key in compared(queue_type or queue.settings.queue_type):
        _check_same(key, place, arguments, queue.arguments)


@cache
def compared(queue_type: QueueType) -> tuple[str, ...]:
    """The arguments compared on redeclare, RabbitMQ's first."""
    settings = [
        setting
        for setting in ARGUMENTS.values()
        if setting.argument is not None and setting.argument.is_compared and setting.is_for(queue_type)
    ]
    settings.sort(key=lambda each: (each.origin is not Origin.RABBITMQ, queue_type in each.offered))
    first = _QUORUM_ORDER if queue_type == "quorum" else ()
    return tuple(dict.fromkeys((*first, *(each.key for each in settings))))


def _check_same(key: str, place: str, received: Table, current: Table) -> None:
    if key in received and key in current:
        if not same_value(received[key], current[key]):
            # parity: error texts name types only if one side has no value.
            raise _inequivalent(key, place, f"'{_shown(received[key])}'", f"'{_shown(current[key])}'")
    elif key in received or key in current:
        if key == "x-queue-type" and "classic" in (received.get(key), current.get(key)):
            return  # parity: an explicit classic equals no type
        raise _inequivalent(key, place, _told(received, key), _told(current, key))


def _inequivalent(key: str, place: str, received: str, current: str) -> AmqpError:
    return precondition_failed(f"inequivalent arg '{key}' for {place}: received {received} but current is {current}")


def _told(arguments: Table, key: str) -> str:
    if key not in arguments:
        return "none"
    return f"the value '{_shown(arguments[key])}' of type '{type_name(arguments, key)}'"


def _flag(value: bool) -> str:
    return "'true'" if value else "'false'"


def _shown(value: Value) -> str:
    """A value as in RabbitMQ's error texts."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _check_quorum_flags(place: str, *, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    if auto_delete:
        raise precondition_failed(f"invalid property 'auto-delete' for {place}")
    if exclusive:
        raise precondition_failed(f"invalid property 'exclusive-owner' for {place}")
    if not durable:
        raise precondition_failed(f"invalid property 'non-durable' for {place}")


def _place(queue: str, vhost: str) -> str:
    return f"queue '{queue}' in vhost '{vhost}'"

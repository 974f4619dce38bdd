"""The options of `option(…)`: names, defaults, values.

Case does not matter. An unknown name is an error that suggests the nearest name, so that a typo cannot disable a
guarantee.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from rabbitlike.spark import address
from rabbitlike.spark.address import Address, Tls

GUARANTEES: Final = ("at-least-once", "effectively-once", "exactly-once")
ID_STRATEGIES: Final = ("content", "position", "column", "none")
ACK_MODES: Final = ("spool", "commit", "auto")

#: Environment variable with the default URI, so that programs need not contain a password.
URI_VARIABLE: Final = "AMQP_URI"

_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
#: Spark passes its own query options to the sink as well.
_QUERY_NAME: Final = "queryname"
_OF_SPARK: Final = (
    "checkpointlocation",
    "usetempcheckpointlocation",
    "asyncprogresstrackingenabled",
    "asyncprogresstrackingcheckpointintervalms",
    "_asyncprogresstrackingoverridesinksupportcheck",
)
#: Names used by other sources, and the option to use instead.
_ELSEWHERE: Final = {
    "subscribe": "name the queue to read by the option queue",
    "subscribepattern": "name one queue to read by the option queue; to read several, unite their DataFrames",
    "assign": "name the queue to read by the option queue",
    "topic": "name the exchange by the option exchange, or the queue by the option routingKey",
    "kafka.bootstrap.servers": "name the broker by the option uri",
    "path": "load(), save() and start() take no path: name a queue to read by the option queue, or where to write by "
    "the options exchange and routingKey",
}


class OptionError(ValueError):
    """An unknown option or an invalid value."""


@dataclass(frozen=True, slots=True)
class Options:
    """All options with their values. Names are the users' names in Python's spelling; see `NAMES`."""

    address: Address
    # Writing
    exchange: str = ""
    routing_key: str | None = None
    guarantee: str = "at-least-once"
    id_strategy: str | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None
    max_in_flight: int = 2000
    confirm_timeout_ms: int = 30000
    mandatory: bool = True
    delivery_mode: int = 2
    ignore_unknown_columns: bool = False
    max_atomic_bytes: int = 64 << 20
    overwrite_action: str = "none"
    format: str = "columns"
    # Reading
    queue: str | None = None
    queue_type: str = "auto"
    starting_offsets: str = "earliest"
    ending_offsets: str = "latest"
    max_rows_per_trigger: int = 10000
    max_bytes_per_trigger: int | None = None
    num_partitions: int = 1
    ack_mode: str = "spool"
    spool_location: str | None = None
    prefetch_count: int | None = None
    poll_timeout_ms: int = 200
    destructive: bool = False
    browse: bool = False
    fail_on_data_loss: bool = True
    include_headers: str = "map"
    # Both
    declare: str = "none"
    #: The value of `.queryName(…)`, for a stream that writes.
    query_name: str | None = None

    @property
    def ids(self) -> str:
        """Return how ids are made: the option's value, or what the guarantee needs."""
        return self.id_strategy or ("content" if self.guarantee == "effectively-once" else "none")

    @property
    def timeout_s(self) -> float:
        return self.confirm_timeout_ms / 1000


def _text(value: str) -> str:
    return value


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in choices:
            raise ValueError(", ".join(choices[:-1]) + f" or {choices[-1]}")
        return value.lower()

    return parse


def _only(choice: str, why: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() != choice:
            raise ValueError(f"{choice}: {why}")
        return choice

    return parse


def _number(low: int, high: int = (1 << 63) - 1) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not value.strip().lstrip("-").isdecimal() or not low <= int(value) <= high:
            raise ValueError(f"a number from {low} on" if high >= 1 << 62 else f"a number from {low} to {high}")
        return int(value)

    return parse


def _size(value: str) -> int:
    text = value.strip().lower().removesuffix("b")
    unit = _UNITS.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or int(digits) == 0:
        raise ValueError("a size in bytes such as 500000, 512k or 64m")
    return int(digits) * unit


_NO_OFFSETS: Final = (
    "a queue has no offsets, what is read is all that is in it. To leave out what is there now, purge the queue first"
)

#: Every option as users write it: the field it sets and the parser of its value.
NAMES: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "exchange": ("exchange", _text),
    "routingKey": ("routing_key", _text),
    "guarantee": ("guarantee", _choice(*GUARANTEES)),
    "idStrategy": ("id_strategy", _choice(*ID_STRATEGIES)),
    "txnAppId": ("txn_app_id", _text),
    "txnVersion": ("txn_version", _number(0)),
    "maxInFlight": ("max_in_flight", _number(1)),
    "confirmTimeoutMs": ("confirm_timeout_ms", _number(1)),
    "mandatory": ("mandatory", _flag),
    "deliveryMode": ("delivery_mode", _number(1, 2)),
    "declare": ("declare", _choice("none", "passive", "create")),
    "ignoreUnknownColumns": ("ignore_unknown_columns", _flag),
    "maxAtomicBytes": ("max_atomic_bytes", _size),
    "overwriteAction": ("overwrite_action", _choice("none", "purge")),
    "format": ("format", _choice("columns", "json")),
    "queue": ("queue", _text),
    "queueType": ("queue_type", _choice("auto", "classic", "stream")),
    "startingOffsets": ("starting_offsets", _only("earliest", _NO_OFFSETS)),
    "endingOffsets": ("ending_offsets", _only("latest", _NO_OFFSETS)),
    "maxRowsPerTrigger": ("max_rows_per_trigger", _number(1)),
    "maxOffsetsPerTrigger": ("max_rows_per_trigger", _number(1)),  # Kafka's name
    "maxBytesPerTrigger": ("max_bytes_per_trigger", _size),
    "numPartitions": ("num_partitions", _number(1)),
    "minPartitions": ("num_partitions", _number(1)),  # Kafka's name
    "ackMode": ("ack_mode", _choice(*ACK_MODES)),
    "spoolLocation": ("spool_location", _text),
    "prefetchCount": ("prefetch_count", _number(1, 65535)),
    "pollTimeoutMs": ("poll_timeout_ms", _number(0)),
    "destructive": ("destructive", _flag),
    "browse": ("browse", _flag),
    "failOnDataLoss": ("fail_on_data_loss", _flag),
    "includeHeaders": ("include_headers", _choice("map", "true", "false")),
}

#: Options that locate the broker, besides `uri`.
ADDRESS_NAMES: Final = ("uri", "host", "port", "virtualHost", "username", "password", "tls")

_KNOWN: Final = {name.lower(): name for name in (*NAMES, *ADDRESS_NAMES)}


def parse(given: Mapping[str, str]) -> Options:
    """Return the effective options; raise OptionError for an invalid one."""
    by_name: dict[str, str] = {}
    query_name = None
    for key, value in given.items():
        if key.lower() == _QUERY_NAME:
            query_name = value
        elif key.lower() not in _OF_SPARK:
            by_name[_known(key)] = value
    values: dict[str, object] = {}
    for name in NAMES.keys() & by_name:
        field = NAMES[name][0]
        if field in values:
            same = sorted(each for each in by_name if NAMES.get(each, ("",))[0] == field)
            raise OptionError(f"options {' and '.join(same)} are one: give only one of them")
        values[field] = _read(name, by_name[name])
    options = Options(address=_address(by_name), query_name=query_name)
    return replace(options, **values) if values else options  # type: ignore[arg-type]


def _known(key: str) -> str:
    name = _KNOWN.get(key.lower())
    if name is None:
        if key.lower() in _ELSEWHERE:
            raise OptionError(f"amqp has no option '{key}': {_ELSEWHERE[key.lower()]}")
        raise OptionError(f"amqp has no option '{key}'{nearest(key, _KNOWN)}")
    return name


def nearest(name: str, known: Mapping[str, str]) -> str:
    """Return `: did you mean 'x'?` or an empty text. `known` maps names to compare to names to show."""
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f": did you mean '{known[close[0]]}'?" if close else ""


def _read(name: str, value: str) -> object:
    try:
        return NAMES[name][1](value)
    except ValueError as error:
        raise OptionError(f"option {name} is '{value}', and must be {error}") from None


def _address(given: Mapping[str, str]) -> Address:
    """Return the address: `uri` or the environment variable, overridden by the single options."""
    try:
        found = address.parse(given.get("uri") or os.environ.get(URI_VARIABLE) or address.DEFAULT_URI)
    except ValueError as error:
        raise OptionError(f"option uri: {error}") from None
    if "tls" in given:
        is_tls = _flag_option("tls", given["tls"])
        other = address.TLS_PORT if is_tls else address.PORT
        is_default = found.port in (address.PORT, address.TLS_PORT)
        found = replace(found, tls=(found.tls or Tls()) if is_tls else None, port=other if is_default else found.port)
    if "port" in given:
        if not given["port"].isdecimal() or not 0 < int(given["port"]) < 65536:
            raise OptionError(f"option port is '{given['port']}', and must be a number from 1 to 65535")
        found = replace(found, port=int(given["port"]))
    return replace(
        found,
        host=given.get("host", found.host),
        vhost=given.get("virtualHost", found.vhost),
        user=given.get("username", found.user),
        password=given.get("password", found.password),
    )


def _flag_option(name: str, value: str) -> bool:
    try:
        return _flag(value)
    except ValueError as error:
        raise OptionError(f"option {name} is '{value}', and must be {error}") from None


def default(name: str) -> object:
    """Return the default of an option."""
    return next(field.default for field in fields(Options) if field.name == NAMES[name][0])

"""All options, each declared once with name, type, default, bounds and help.

Each declaration defines the flag (`--data-dir`), the environment variable (`RABBITLIKE_DATA_DIR`) and the key of the
TOML file (`data_dir`); the first of these that is set wins. pydantic-settings reads and validates them (`_judged`).
Importing it takes longer than the rest of the start, so options that are plainly valid are read without it (`_plain`),
with the same result. `BrokerSettings` is the part that broker and session read. No code reads options from a global:
callers pass the settings.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_settings import BaseSettings

PREFIX: Final = "RABBITLIKE_"
#: Variables with this prefix that are not options of the broker but of the commands, the build or the tests. Any other
#: unknown variable is an error and stops the start.
OTHER_VARIABLES: Final = ("CAFILE", "CHECKED", "PASSWORD", "PURE", "TEST_SLICED", "URL", "USER", "VHOST")


class ConfigError(Exception):
    """An invalid setting; the text is one line that names it and the remedy."""


def option(
    default: Any, said: str, *, read: str = "", is_secret: bool = False, reloads: bool = False, **bounds: int
) -> Any:
    """Declare an option: `said` is its help, `read` names the parser of values that are not plain, `reloads` means that
    SIGHUP applies a new value; bounds are pydantic's."""
    metadata = {"help": said, "read": read, "bounds": bounds, "reloads": reloads}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, repr=not is_secret, metadata=metadata)


def _cluster_name() -> str:
    return f"rabbitlike@{socket.gethostname()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The options of the broker and its sessions; the defaults alone make a working broker."""

    # parity: clients switch behaviour on these two (kombu's global prefetch, amqplib's frame sizes)
    product: str = option("RabbitMQ", "Product name in the server properties.")
    version: str = option("3.13.7", "Version in the server properties.")
    cluster_name: str = option(_cluster_name, "Cluster name in the server properties.")
    frame_max: int = option(131_072, "Maximum frame size offered, in bytes.", ge=4096, le=16_777_216)
    channel_max: int = option(2047, "Maximum number of channels per connection.", reloads=True, ge=1, le=65_535)
    heartbeat: int = option(
        60, "Heartbeat offered to clients, in seconds; 0 offers none.", reloads=True, ge=0, le=65_535
    )
    connection_max: int = option(0, "Maximum number of connections; 0 means no limit.", reloads=True, ge=0)
    consumer_max_per_channel: int = option(
        0, "Maximum number of consumers per channel; 0 means no limit.", reloads=True, ge=0
    )
    # spec: nothing larger than 512 MiB can be announced
    max_message_size: int = option(
        134_217_728, "Maximum size of a message body, in bytes.", reloads=True, read="size", ge=0, le=536_870_912
    )
    default_vhost: str = option("/", "Virtual host created at the first start.", min_length=1)
    default_user: str = option("guest", "User created at the first start.", min_length=1)
    default_password: str = option("guest", "Password of that user.", is_secret=True)
    load_definitions: Path | None = option(
        None, "Definitions file imported at every start; the default vhost and user are then not created."
    )
    load_definitions_strict: bool = option(
        False, "Do not start if that file has unsupported entries, instead of skipping them."
    )
    loopback_users: tuple[str, ...] = option(
        ("guest",),
        "Users that can log in from this machine only; repeat it, or use commas; none removes the restriction.",
        reloads=True,
    )
    password_hashing: Literal["sha256", "sha512"] = option("sha256", "Hash for new passwords.")
    track_auth_attempt_source: bool = option(False, "Also count login attempts by user name and address.")
    default_prefetch: int = option(
        0, "Prefetch of channels that set none; 0 means no limit.", reloads=True, ge=0, le=65_535
    )
    default_max_length: int = option(
        0, "Maximum number of ready messages in queues without a limit; 0 means no limit.", ge=0
    )
    default_max_priority: int = option(
        9, "Maximum priority of queues that set none; with 0 they ignore priorities.", reloads=True, ge=0, le=255
    )
    default_consumer_timeout_ms: int | None = option(
        None, "Acknowledgement timeout, after which the channel is closed; none disables it.", reloads=True, ge=1
    )
    handshake_timeout_ms: int = option(
        10_000, "Time from connecting to connection.open, in milliseconds.", reloads=True, ge=1
    )
    out_buffer_limit: int = option(
        1_048_576, "Bytes that a client can leave unread before deliveries to it pause.", read="size", ge=4096
    )
    unacked_limit: int = option(
        134_217_728,
        "Memory for unacknowledged messages of one connection before deliveries to it pause; 0 means no limit.",
        read="size",
        ge=0,
    )
    max_transaction_size: int = option(
        268_435_456, "Maximum size of the publishes of one transaction, in bytes.", read="size", ge=65_536
    )
    memory_high_watermark: int | float = option(
        0.6, "Memory above which publishers are blocked: bytes, or a fraction of the total.", read="size", gt=0
    )
    memory_check_interval_ms: int = option(1000, "Interval of the memory check, in milliseconds.", ge=1)
    queue_window: int = option(
        16_777_216, "Memory for the backlog of one queue; the rest stays on disk.", read="size", ge=65_536
    )
    event_log: bool = option(False, "Log every event of every message; otherwise only of queues with x-trace.")
    event_log_interval_ms: int = option(
        60_000, "Maximum time before events are written to a file, in milliseconds.", ge=1000, le=3_600_000
    )
    # parity: RabbitMQ 3.x continues an x-death header from a client, 4.x does not
    trust_client_x_death: bool = option(True, "Continue x-death headers of messages that clients publish.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(BrokerSettings):
    """All options of a running server."""

    config: Path | None = option(None, "TOML file with any of these options.")
    host: str = option("localhost", "Address to listen on; 0.0.0.0 or :: for all.", min_length=1)
    port: int | None = option(5672, "AMQP port; 0 selects a free port, none disables it.", ge=0, le=65_535)
    management_port: int | None = option(15_672, "HTTP port; 0 selects a free port, none disables it.", ge=0, le=65_535)
    management_tls_port: int | None = option(15_671, "HTTPS port, used when a certificate is set.", ge=0, le=65_535)
    management_cors_origins: tuple[str, ...] = option(
        (),
        "Origins whose web pages may use the HTTP API (https://example.com, or *); repeat it, or use commas.",
    )
    webhook_allow: tuple[str, ...] = option(
        (), "Private hosts, addresses or networks (10.0.0.0/8) that webhooks may call; repeat it, or use commas."
    )
    webhook_secret: str | None = option(
        None, "Secret that signs webhooks, in a header; none disables signatures.", is_secret=True, min_length=1
    )
    prometheus_port: int | None = option(
        None, "Port for metrics without a login (RabbitMQ uses 15692); none disables it.", ge=0, le=65_535
    )
    busy_poll_us: int = option(
        50, "Microseconds to poll for more after each read before sleeping; 0 disables polling.", ge=0, le=10_000
    )
    collect_statistics_interval_ms: int = option(
        5000, "Sampling interval of rates and history, in milliseconds.", ge=1000, le=3_600_000
    )
    data_dir: Path = option(Path("data"), "Directory for all durable data.")
    durability: Literal["full", "normal", "off"] = option(
        "full", "Meaning of a confirm: on disk (full), or safe only from a crash of the broker (normal, off)."
    )
    disk_free_limit: int = option(
        52_428_800, "Free disk space below which publishers are blocked, in bytes; 0 means no limit.", read="size", ge=0
    )
    event_log_max_age: int = option(604_800, "Seconds to keep event files.", ge=60)
    event_log_max_bytes: int = option(
        1_073_741_824, "Bytes of event files to keep; the oldest are deleted first.", read="size", ge=1_048_576
    )
    memory: bool = option(False, "Keep everything in memory; nothing is written to disk.")
    log_level: Literal["debug", "info", "warning", "error"] = option("info", "Minimum level to log.", reloads=True)
    log_format: Literal["text", "json"] = option("text", "Lines of text, or one JSON object per line.", reloads=True)
    log_file: Path | None = option(None, "File to log to instead of standard error.", reloads=True)
    unix_socket: Path | None = option(None, "Path of an additional unix socket.")
    listeners: tuple[str, ...] = option(
        (),
        "Additional listeners: amqp://host:port, amqps://host:port, unix:///path; repeat it, or use commas.",
        read="listener",
    )
    tls_port: int | None = option(5671, "AMQP over TLS port, used when a certificate is set.", ge=0, le=65_535)
    tls_certfile: Path | None = option(None, "Server certificate (PEM, with its chain).", reloads=True)
    tls_keyfile: Path | None = option(
        None, "Private key of the certificate, if it is in a separate file.", reloads=True
    )
    tls_cafile: Path | None = option(
        None, "Certificate authorities trusted for client certificates (PEM).", reloads=True
    )
    tls_verify: Literal["none", "optional", "required"] = option(
        "none",
        "Client certificates: none requests none, optional verifies one if sent, required requires one.",
        reloads=True,
    )

    def __post_init__(self) -> None:
        # Callers that make settings in Python may pass a path as text, as usual in Python.
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, str) and Path in (each.type, *get_args(each.type)):
                object.__setattr__(self, each.name, Path(value))

    @property
    def broker(self) -> BrokerSettings:
        """The options that broker and session read."""
        return BrokerSettings(**{each.name: getattr(self, each.name) for each in fields(BrokerSettings)})


DEFAULTS: Final = Settings()
#: In display order: the server's options first.
OPTIONS: Final[Mapping[str, Field[Any]]] = {
    each.name: each for each in sorted(fields(Settings), key=lambda each: hasattr(BrokerSettings, each.name))
}
#: The options that a TLS context is made from.
TLS_OPTIONS: Final = ("tls_certfile", "tls_keyfile", "tls_cafile", "tls_verify")

#: Options from the command line: text, several texts, or a switch.
Given = Mapping[str, str | list[str] | bool]


def load(given: Given | None = None) -> Settings:
    """Merge `given` (the command line), the environment, the file and the defaults; raise ConfigError."""
    _check_variables()
    settings = _plain(given or {}) or _judged(given or {})
    if settings.tls_certfile is None:
        for name in ("tls_keyfile", "tls_cafile"):
            if getattr(settings, name) is not None:
                raise ConfigError(f"{name} is set and tls_certfile is not: give the server's certificate too")
        if any(url.startswith("amqps:") for url in settings.listeners):
            raise ConfigError("an amqps listener needs a certificate: set tls_certfile to a PEM file")
    if settings.tls_verify != "none" and settings.tls_cafile is None:
        raise ConfigError(f"tls_verify {settings.tls_verify} needs authorities: set tls_cafile to a PEM file")
    return settings


def reloaded(current: Settings, wanted: Settings) -> tuple[Settings, list[str]]:
    """`current` with the options of `wanted` that can change at run time, and the names of changed ones that cannot."""
    changed = [name for name in OPTIONS if getattr(current, name) != getattr(wanted, name)]
    fixed = [name for name in changed if not OPTIONS[name].metadata["reloads"]]
    if (current.tls_certfile is None) != (wanted.tls_certfile is None):  # TLS listeners are made at the start
        fixed += [name for name in changed if name in TLS_OPTIONS]
    return replace(current, **{name: getattr(wanted, name) for name in changed if name not in fixed}), fixed


def _check_variables() -> None:
    known = {PREFIX + name.upper() for name in OPTIONS} | {PREFIX + name for name in OTHER_VARIABLES}
    for variable in sorted(os.environ.keys() - known):
        if variable.startswith(PREFIX):
            near = _nearest(variable.removeprefix(PREFIX), PREFIX)
            raise ConfigError(f"unknown variable {variable}{near or '; unset it'}")


def _plain(given: Given) -> Settings | None:
    """The settings if all given values are plainly valid and there is no file; otherwise None: use `_judged`."""
    values: dict[str, object] = {}
    for name, each in OPTIONS.items():
        value = given[name] if name in given else os.environ.get(PREFIX + name.upper()) or None
        if value is not None:
            values[name] = _plain_value(each, value)
            if values[name] is NOT_PLAIN or name == "config":
                return None
    return Settings(**values) if values.keys() >= given.keys() else None  # type: ignore[arg-type]


NOT_PLAIN: Final = object()


def _plain_value(each: "Field[Any]", value: str | list[str] | bool) -> object:
    kinds = _kinds(each)
    if isinstance(value, bool) or bool in kinds:
        return value if isinstance(value, bool) and bool in kinds else NOT_PLAIN
    if not isinstance(value, str) or not value:
        return NOT_PLAIN
    if value == "none" and type(None) in kinds:
        return None
    if get_origin(each.type) is Literal:
        return value if value in get_args(each.type) else NOT_PLAIN
    if int in kinds:
        bounds = each.metadata["bounds"]
        is_number = value.isascii() and value.isdigit() and len(value) < 16 and "gt" not in bounds
        return int(value) if is_number and bounds["ge"] <= int(value) <= bounds.get("le", 2**63) else NOT_PLAIN
    if Path in kinds:
        return Path(value) if value.lower() != "none" else NOT_PLAIN
    return value if str in kinds else NOT_PLAIN


def _kinds(each: "Field[Any]") -> tuple[object, ...]:
    """The types a value may have: `int | None` has two."""
    return get_args(each.type) if isinstance(each.type, UnionType) else (each.type,)


def _judged(given: Given) -> Settings:
    """The settings as pydantic-settings reads them from all sources; raise ConfigError for the first invalid value."""
    from pydantic import ValidationError

    try:
        model = _model()(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        raise ConfigError(_first_fault(error)) from None
    return Settings(**{name: getattr(model, name) for name in OPTIONS})


def _model() -> "type[BaseSettings]":
    """The options above as a pydantic-settings model."""
    from typing import Annotated

    from pydantic import BeforeValidator, create_model
    from pydantic import Field as Bounded
    from pydantic_settings import BaseSettings, InitSettingsSource, NoDecode, PydanticBaseSettingsSource

    class Sources(BaseSettings, env_prefix=PREFIX, env_ignore_empty=True, extra="forbid"):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            path = init_settings().get("config") or env_settings().get("config")
            file = _read_toml(Path(path)) if path else {}
            return init_settings, env_settings, InitSettingsSource(settings_cls, file)

    declared: dict[str, Any] = {}
    for name, each in OPTIONS.items():
        default = Bounded(default=getattr(DEFAULTS, name), **each.metadata["bounds"])
        marks = [NoDecode] if get_origin(each.type) is tuple else []
        declared[name] = (Annotated[each.type, *marks, BeforeValidator(_reader(each))], default)
    return create_model("Options", __base__=Sources, **declared)


def _reader(each: "Field[Any]") -> Any:
    """The function applied to a value of this option before its type is validated."""
    if get_origin(each.type) is tuple:
        return _read_listeners if each.metadata["read"] == "listener" else _read_several
    if each.metadata["read"] == "size":
        return _read_size
    return _read_none if type(None) in _kinds(each) else lambda value: value


def _read_none(value: object) -> object:
    """Read `none` as None, because TOML and the environment have no null."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _read_several(value: object) -> object:
    """Read one text with commas, as in the environment, or several texts, as on the command line."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return value
    found = [part.strip() for text in texts for part in text.split(",")]
    return [part for part in found if part and part.lower() != "none"]


def _read_listeners(value: object) -> object:
    from urllib.parse import urlsplit

    found = _read_several(value)
    for url in found if isinstance(found, list) else ():
        parts = urlsplit(str(url))
        is_socket = parts.scheme == "unix" and parts.path and not parts.netloc
        is_address = parts.scheme in ("amqp", "amqps") and parts.hostname and parts.path in ("", "/")
        if not is_socket and not is_address:
            raise ValueError("each must be amqp://host:port, amqps://host:port or unix:///path")
        _ = parts.port  # raises ValueError if invalid
    return found


def _read_size(value: object) -> object:
    """Keep plain numbers; convert `1GiB` and `500MB` to bytes."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    if not isinstance(value, str) or value.replace(".", "", 1).isdigit():
        return value
    try:
        return int(TypeAdapter(ByteSize).validate_python(value))
    except ValidationError:
        raise ValueError("expected bytes, as 1073741824 or 1GiB") from None


def _read_toml(path: Path) -> dict[str, object]:
    import tomllib

    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    for key in table:
        if key not in OPTIONS or key == "config":
            raise ConfigError(f"{path}: unknown option '{key}'{_nearest(key)}")
    return table


def _nearest(name: str, prefix: str = "") -> str:
    import difflib

    close = difflib.get_close_matches(name.lower().replace("-", "_"), OPTIONS, n=1)
    if not close:
        return ""
    return f"; did you mean '{prefix + close[0].upper() if prefix else close[0]}'?"


def _first_fault(error: "ValidationError") -> str:
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else "options"
    if fault["type"] == "extra_forbidden":
        return f"unknown option '{name}'{_nearest(name)}"
    said = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {fault['input']!r}: {said[0].lower()}{said[1:]}"

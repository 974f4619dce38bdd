"""Every option, declared once: its name, type, default, bounds and help.

The same declaration makes the command line flag (`--data-dir`), the environment variable (`RABBITLIKE_DATA_DIR`) and
the key of the TOML file (`data_dir`); the first of these three that is given wins. `BrokerSettings` is the part that
broker and session read. Nobody reads options from a global: settings are handed in.
"""

import difflib
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

_BYTE_SIZE = TypeAdapter(ByteSize)


class ConfigError(Exception):
    """A setting that cannot be used; the text is one line that says which and what to do."""


def _split(value: object) -> object:
    """Lists are written with commas in the environment: `a,b`."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _absent(value: object) -> object:
    """`none` turns an optional thing off, where TOML and the environment have no null."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none") else value


def _size(value: object) -> object:
    """Plain numbers stay as they are, `1GiB` and `500MB` become bytes."""
    if not isinstance(value, str):
        return value
    try:
        if "." in value and value.replace(".", "", 1).isdigit():
            return float(value)
        return int(_BYTE_SIZE.validate_python(value))
    except ValidationError:
        raise ValueError("expected bytes (1073741824, 1GiB) or a fraction of the machine's memory (0.6)") from None


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Port = Annotated[int, Field(ge=0, le=65535)]
OptionalPort = Annotated[Port | None, BeforeValidator(_absent)]
OptionalPath = Annotated[Path | None, BeforeValidator(_absent)]
OptionalMs = Annotated[int | None, Field(ge=1), BeforeValidator(_absent)]
Size = Annotated[int, Field(ge=0), BeforeValidator(_size)]
SizeOrFraction = Annotated[int | float, Field(gt=0), BeforeValidator(_size)]


def _listener(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "unix" and parts.path and not parts.netloc:
        return url
    if parts.scheme in ("amqp", "amqps") and parts.hostname and parts.path in ("", "/"):
        _ = parts.port  # ValueError when it is no port
        return url
    raise ValueError(f"'{url}' is not amqp://host:port, amqps://host:port or unix:///path")


Listeners = Annotated[
    tuple[Annotated[str, BeforeValidator(lambda url: _listener(str(url)))], ...], NoDecode, BeforeValidator(_split)
]


class BrokerSettings(BaseModel):
    """What the broker and its sessions read; made of defaults alone it is a whole broker."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # parity: clients switch behaviour on these two (kombu's global prefetch, amqplib's frame sizes)
    product: str = Field("RabbitMQ", description="Product name in the server properties.")
    version: str = Field("3.13.7", description="Version in the server properties.")
    cluster_name: str = Field(default_factory=lambda: f"rabbitlike@{socket.gethostname()}", description="Cluster name.")
    frame_max: int = Field(131_072, ge=4096, le=16 * 1024 * 1024, description="Largest frame offered, in bytes.")
    channel_max: int = Field(2047, ge=1, le=65_535, description="Most channels of one connection.")
    heartbeat: int = Field(60, ge=0, le=65_535, description="Heartbeat offered to clients, in seconds; 0 offers none.")
    connection_max: int = Field(0, ge=0, description="Most connections at a time; 0 sets no limit.")
    consumer_max_per_channel: int = Field(0, ge=0, description="Most consumers of one channel; 0 sets no limit.")
    # spec: nothing larger than 512 MiB can be announced
    max_message_size: Size = Field(134_217_728, le=536_870_912, description="Largest message body, in bytes.")
    default_vhost: str = Field("/", description="Virtual host that is made at the first start.")
    default_user: str = Field("guest", min_length=1, description="User that is made at the first start.")
    default_password: str = Field("guest", repr=False, description="Password of that user.")
    loopback_users: Names = Field(("guest",), description="Users that may log in from this machine only; none: empty.")
    default_prefetch: int = Field(0, ge=0, le=65_535, description="Prefetch of channels that set none; 0 is unlimited.")
    default_consumer_timeout_ms: OptionalMs = Field(
        None, description="Close channels that leave a delivery unacknowledged this long; none: never."
    )
    handshake_timeout_ms: int = Field(10_000, ge=1, description="Time a client has from connecting to connection.open.")
    out_buffer_limit: Size = Field(
        1_048_576, ge=4096, description="Bytes a client may leave unread before deliveries to it pause."
    )
    memory_high_watermark: SizeOrFraction = Field(
        0.6, description="Memory above which publishers are blocked: bytes, or a fraction of the machine's."
    )
    memory_check_interval_ms: int = Field(1000, ge=1, description="How often memory is looked at.")
    # parity: RabbitMQ 3.x counts on from an x-death header the client sent, 4.x does not
    trust_client_x_death: bool = Field(True, description="Continue x-death headers of messages that clients publish.")


class Settings(BrokerSettings, BaseSettings):
    """All options of one running server."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="RABBITLIKE_", env_ignore_empty=True)

    config: OptionalPath = Field(None, description="TOML file with any of these options.")
    host: str = Field("localhost", min_length=1, description="Address to listen on; 0.0.0.0 or :: for all.")
    port: OptionalPort = Field(5672, description="AMQP port; 0 takes a free one, none listens on none.")
    management_port: OptionalPort = Field(15_672, description="HTTP port; 0 takes a free one, none listens on none.")
    data_dir: Path = Field(Path("data"), description="Folder for all that outlives a restart.")
    memory: bool = Field(False, description="Keep everything in memory; nothing is written to disk.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    unix_socket: OptionalPath = Field(None, description="Path of a unix socket to listen on as well.")
    listeners: Listeners = Field(
        (), description="More listeners: amqp://host:port, amqps://host:port, unix:///path; may be given several times."
    )
    tls_port: OptionalPort = Field(5671, description="AMQP over TLS port, used when a certificate is given.")
    tls_certfile: OptionalPath = Field(None, description="Server certificate (PEM, with its chain).")
    tls_keyfile: OptionalPath = Field(None, description="Key of that certificate, unless it stands in the same file.")
    tls_cafile: OptionalPath = Field(None, description="Authorities whose client certificates are believed (PEM).")
    tls_verify: Literal["none", "optional", "required"] = Field(
        "none", description="Client certificates: not asked for, checked when given, or demanded."
    )

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
        if not path:
            return init_settings, env_settings
        return init_settings, env_settings, InitSettingsSource(cls, _read_toml(Path(path), cls))

    @property
    def broker(self) -> BrokerSettings:
        """The part that broker and session read."""
        return BrokerSettings.model_construct(**{name: getattr(self, name) for name in BrokerSettings.model_fields})

    @classmethod
    def load(cls, given: Mapping[str, object] = {}) -> "Settings":
        """Join `given` (the command line), the environment, the file and the defaults; raise ConfigError."""
        try:
            settings = cls(**given)  # type: ignore[arg-type]  # pydantic checks them
        except ValidationError as error:
            raise ConfigError(_first_fault(error)) from None
        settings._check_tls()
        return settings

    def _check_tls(self) -> None:
        wanted = self.tls_keyfile or self.tls_cafile or any(url.startswith("amqps:") for url in self.listeners)
        if wanted and self.tls_certfile is None:
            raise ConfigError("TLS needs a certificate: set tls_certfile (--tls-certfile) to a PEM file")
        if self.tls_verify != "none" and self.tls_cafile is None:
            raise ConfigError(f"tls_verify {self.tls_verify} needs authorities: set tls_cafile (--tls-cafile)")


def _read_toml(path: Path, settings: type[Settings]) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    found = {key.replace("-", "_"): value for key, value in table.items()}
    for key in found:
        if key not in settings.model_fields or key == "config":
            raise ConfigError(f"{path}: unknown option '{key}'{nearest(key, settings)}")
    return found


def nearest(name: str, settings: type[Settings] = Settings) -> str:
    """`; did you mean 'port'?` for a name that no option has, or nothing when none is near."""
    close = difflib.get_close_matches(name.lower(), settings.model_fields, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    name = str(fault["loc"][0]) if fault["loc"] else "settings"
    if fault["type"] == "extra_forbidden":
        return f"unknown option '{name}'{nearest(name)}"
    said = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {fault['input']!r}: {said[0].lower()}{said[1:]}"

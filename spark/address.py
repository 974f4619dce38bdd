"""AMQP URIs in the syntax of RabbitMQ's clients: broker, credentials, vhost, TLS.

`amqp://user:password@host:port/vhost`, `amqps://` for TLS; `cacertfile`, `certfile`, `keyfile`, `verify` and
`server_name_indication` may follow as a query. Texts and errors never contain the password.
"""

import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_URI: Final = "amqp://guest:guest@127.0.0.1:5672/"
PORT: Final = 5672
TLS_PORT: Final = 5671

_TLS_KEYS: Final = ("cacertfile", "certfile", "keyfile", "verify", "server_name_indication")
#: Query keys that RabbitMQ's clients accept and this client ignores.
_IGNORED_KEYS: Final = ("heartbeat", "connection_timeout", "channel_max", "frame_max", "auth_mechanism")


@dataclass(frozen=True, slots=True)
class Tls:
    """How to check the broker's certificate, and which client certificate to present."""

    cacertfile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: str = "verify_peer"
    server_name_indication: str | None = None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.cacertfile)
        if self.verify == "verify_none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """One broker, one virtual host, one user."""

    host: str = "127.0.0.1"
    port: int = PORT
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: Tls | None = None

    def __str__(self) -> str:
        """Return the URI without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        vhost = "" if self.vhost == "/" else f"/{self.vhost}"
        return f"{'amqp' if self.tls is None else 'amqps'}://{self.user}@{host}:{self.port}{vhost}"


def parse(uri: str) -> Address:
    """Parse a URI; the ValueError for a malformed URI does not contain its password."""
    parts = urlsplit(uri)
    if parts.scheme not in ("amqp", "amqps") or "://" not in uri:
        shown = uri.rpartition("@")[2]  # the part before it may contain a password
        raise ValueError(f"'{shown}' is no broker's URI: it begins with amqp:// or amqps://, as {DEFAULT_URI} does")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port in the broker's URI is not a number from 0 to 65535") from None
    is_tls = parts.scheme == "amqps"
    return Address(
        host=parts.hostname or "127.0.0.1",
        port=port or (TLS_PORT if is_tls else PORT),
        vhost=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username) if parts.username is not None else "guest",
        password=unquote(parts.password) if parts.password is not None else "guest",
        tls=_tls(parts.query) if is_tls else None,
    )


def _tls(query: str) -> Tls:
    given = dict(parse_qsl(query))
    unknown = given.keys() - {*_TLS_KEYS, *_IGNORED_KEYS}
    if unknown:
        raise ValueError(f"the broker's URI asks for {', '.join(sorted(unknown))}; known are {', '.join(_TLS_KEYS)}")
    return Tls(**{key: value for key, value in given.items() if key in _TLS_KEYS})

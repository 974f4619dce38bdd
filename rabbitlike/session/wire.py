"""The interface of a socket to its connection, and the peer's identity."""

from typing import Final, NamedTuple, Protocol

from rabbitlike.protocol.frames import BodyFrames


class Wire(Protocol):
    """A connection's interface to its socket."""

    def write(self, data: bytes) -> None: ...

    def write_frames(self, frames: BodyFrames) -> None:
        """Write a large body in pieces as the client reads it; deliveries pause until it is written."""
        ...

    def close(self) -> None:
        """Close after pending output is written."""
        ...

    def leave(self) -> None:
        """Let the client close after pending output is written; close after a timeout."""
        ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def start_heartbeat(self, seconds: int) -> None: ...


class ClosedWire:
    """Replaces the socket of a connection after it is closed, so that no reference to the socket's owner is left."""

    __slots__ = ()

    def write(self, data: bytes) -> None: ...

    def write_frames(self, frames: BodyFrames) -> None: ...

    def close(self) -> None: ...

    def leave(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def start_heartbeat(self, seconds: int) -> None: ...


CLOSED_WIRE: Final = ClosedWire()


class Peer(NamedTuple):
    """Addresses and TLS data of a connection."""

    host: str
    port: int
    local_host: str
    local_port: int
    tls: bool = False
    #: The common name of the client's certificate, if it is trusted.
    certificate_name: str | None = None
    is_loopback: bool = True
    #: The negotiated TLS parameters, in the terms of RabbitMQ's management, and fields of the client's certificate.
    tls_protocol: str = ""
    tls_key_exchange: str = ""
    tls_cipher: str = ""
    tls_hash: str = ""
    certificate_subject: str = ""
    certificate_issuer: str = ""
    certificate_validity: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port} -> {self.local_host}:{self.local_port}"

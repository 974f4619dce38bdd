"""The socket and who is at its other end, as a connection sees them."""

from typing import Final, NamedTuple, Protocol

from rabbitlike.protocol.frames import BodyFrames


class Wire(Protocol):
    """The socket, as a connection sees it."""

    def write(self, data: bytes) -> None: ...

    def write_frames(self, frames: BodyFrames) -> None:
        """A large body, bit by bit as the client reads it; until then delivery is paused."""
        ...

    def close(self) -> None:
        """After what was written has gone out."""
        ...

    def leave(self) -> None:
        """After what was written has gone out, the client closes; if it does not, we do in a while."""
        ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def start_heartbeat(self, seconds: int) -> None: ...


class ClosedWire:
    """What a connection has instead of its socket once that is gone: nothing leads back to the socket's owner."""

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
    """Who is at the other end."""

    host: str
    port: int
    local_host: str
    local_port: int
    tls: bool = False
    #: The common name of the client's certificate, when it showed one that we trust.
    certificate_name: str | None = None
    is_loopback: bool = True
    #: What was agreed for TLS, in the words of RabbitMQ's management, and what the client's certificate says.
    tls_protocol: str = ""
    tls_key_exchange: str = ""
    tls_cipher: str = ""
    tls_hash: str = ""
    certificate_subject: str = ""
    certificate_issuer: str = ""
    certificate_validity: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port} -> {self.local_host}:{self.local_port}"

"""Where the broker listens: turns options into endpoints and endpoints into bound sockets.

All sockets are bound before any of them accepts, so that a port in use stops the start before clients connect.
"""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rabbitlike.config import Settings

#: Connections that the kernel may queue while the broker is busy; the kernel caps it at its own limit.
BACKLOG = 4096

AMQP_PORT = 5672
AMQPS_PORT = 5671

#: As in the socket module: host and port, for IPv6 also flow info and scope.
Address = tuple[Any, ...]


class ListenError(Exception):
    """An endpoint that cannot be bound; the text is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A place to listen: a host and port, or the path of a Unix socket."""

    scheme: str
    host: str = ""
    port: int = 0
    path: Path | None = None
    option: str = "listeners"

    @property
    def tls(self) -> bool:
        return self.scheme in ("amqps", "https")

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path else f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


def endpoints(settings: Settings) -> list[Endpoint]:
    """All AMQP endpoints of the options, in the order of their announcement."""
    found = []
    if settings.port is not None:
        found.append(Endpoint("amqp", settings.host, settings.port, option="port"))
    if settings.tls_certfile is not None and settings.tls_port is not None:
        found.append(Endpoint("amqps", settings.host, settings.tls_port, option="tls_port"))
    if settings.unix_socket is not None:
        found.append(Endpoint("unix", path=settings.unix_socket, option="unix_socket"))
    for url in settings.listeners:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            found.append(Endpoint("unix", path=Path(parts.path)))
        else:
            port = parts.port if parts.port is not None else AMQPS_PORT if parts.scheme == "amqps" else AMQP_PORT
            found.append(Endpoint(parts.scheme, parts.hostname or "", port))
    return found


def bind(endpoint: Endpoint) -> list[socket.socket]:
    """Bind one socket per address of the host, without listening yet. Raise ListenError if none can be bound."""
    if endpoint.path is not None:
        return [_bind_unix(endpoint.path)]
    try:
        addresses = list(_addresses(endpoint))
    except socket.gaierror as error:
        raise ListenError(
            f"no address is known for host '{endpoint.host}': {error.strerror}; set another host"
        ) from None
    sockets: list[socket.socket] = []
    fault: OSError | None = None
    for family, (host, port, *rest) in addresses:
        # Port 0 picks any free port, but all addresses of a host share it: clients get one number.
        port = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bind(family, (host, port, *rest)))
        except OSError as error:
            fault = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                break
    else:
        if sockets:  # a machine without IPv6 may still list ::1 in its hosts file
            return sockets
    for bound in sockets:
        bound.close()
    raise ListenError(f"cannot listen on {endpoint}: {_advice(endpoint, fault)}")


def urls(endpoint: Endpoint, sockets: list[socket.socket]) -> Iterator[str]:
    """The endpoint's URLs with its actual addresses and port."""
    for bound in sockets:
        if endpoint.path is not None:
            yield str(endpoint)
        else:
            host, port = bound.getsockname()[:2]
            yield f"{endpoint.scheme}://{_bracketed(host)}:{port}"


def _addresses(endpoint: Endpoint) -> Iterator[tuple[socket.AddressFamily, Address]]:
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A hosts file may list one address twice.
    yield from dict.fromkeys((family, address) for family, _, _, _, address in found)


def _bind(family: socket.AddressFamily, address: Address) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # :: accepts all addresses, IPv4 included; any other address accepts only itself.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        # Accepted sockets inherit these two. Without the first, answers wait for the client's delayed acknowledgements;
        # without the second, the connection of a client without heartbeats would stay forever after its machine is
        # gone.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        bound.bind(address)
        # Listen already here: two binds to one port succeed as long as neither socket listens.
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


def _bind_unix(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.setblocking(False)
    try:
        _remove_abandoned(path)
        bound.bind(os.fspath(path))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ListenError(f"cannot listen on unix://{path}: {error.strerror or error}; set another path") from None
    return bound


def _remove_abandoned(path: Path) -> None:
    """Remove the socket file that a killed broker left behind, if no process listens on it."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise OSError(errno.EEXIST, "it exists and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        else:
            raise OSError(errno.EADDRINUSE, "another process listens there")


def _advice(endpoint: Endpoint, fault: OSError | None) -> str:
    flag = f"--{endpoint.option.replace('_', '-')}"
    if fault is None:
        return f"host '{endpoint.host}' has no address"
    if fault.errno == errno.EADDRINUSE:
        return f"the port is taken; stop the other process or choose another port with {flag}"
    if fault.errno == errno.EACCES:
        return f"not permitted; choose a port above 1023 with {flag}"
    if fault.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address; choose another with --host"
    return f"{fault.strerror}; choose another with {flag}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

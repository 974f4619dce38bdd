"""Opens a socket to the broker, with TLS if the address asks for it; defines the error for a lost connection.

A broker that restarts is back in a moment, so a refused connection may be retried. A client that has never reached the
broker does not retry: then the address is more likely to be wrong.
"""

import socket
import time
from typing import Final

from rabbitlike.spark.address import Address

RETRY_AFTER_S: Final = 0.25


class Lost(ConnectionError):
    """The connection is lost, or nothing moved on it for too long. The fate of messages in flight is unknown."""


def dial(address: Address, timeout_s: float, redial_s: float) -> socket.socket:
    """Return a connected, non-blocking socket; retry refused connections for `redial_s`."""
    sock = _connect(address, timeout_s, time.monotonic() + redial_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if address.tls is not None:
        name = address.tls.server_name_indication or address.host
        try:
            sock = address.tls.context().wrap_socket(sock, server_hostname=name)
        except OSError as error:
            sock.close()
            raise Lost(f"no TLS with the broker at {address}: {error}") from error
    sock.setblocking(False)
    return sock


def _connect(address: Address, timeout_s: float, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection((address.host, address.port), timeout=timeout_s)
        except (ConnectionRefusedError, ConnectionResetError, TimeoutError) as error:
            if time.monotonic() + RETRY_AFTER_S >= deadline:
                raise Lost(f"no broker at {address}: {error}") from error
            time.sleep(RETRY_AFTER_S)
        except OSError as error:
            raise Lost(f"no broker at {address}: {error}") from error

"""A few HTTP answers on the management port that say the broker is up; enough for health checks."""

import asyncio
import json
from typing import Final, cast

from rabbitlike import __version__

#: A request whose head is longer is not one of ours.
HEAD_LIMIT: Final = 8192
IDLE_LIMIT_S: Final = 10

_ANSWERS: Final = {
    "/": {"name": "rabbitlike", "version": __version__},
    "/api/health/checks/ready-to-serve-clients": {"status": "ok"},
}


class Liveness(asyncio.Protocol):
    """One request per connection: answer and close."""

    def __init__(self) -> None:
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(IDLE_LIMIT_S, transport.close)

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" in self._head or len(self._head) > HEAD_LIMIT:
            self._transport.write(_answer(self._head))
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()


def _answer(head: bytes) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    found = _ANSWERS.get(rest.partition(" ")[0].partition("?")[0])
    if method not in ("GET", "HEAD"):
        status, body = "405 Method Not Allowed", {"error": "method_not_allowed"}
    elif found is None:
        status, body = "404 Not Found", {"error": "not_found"}
    else:
        status, body = "200 OK", found
    text = json.dumps(body).encode()
    fields = ["Content-Type: application/json", f"Content-Length: {len(text)}", "Connection: close"]
    answer = "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()
    return answer if method == "HEAD" else answer + text

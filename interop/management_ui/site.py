"""RabbitMQ's management UI and our API on one origin: files of RabbitMQ's package, and a broker below /api."""

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.support.left_out import NEEDS

PLACES: Final = (
    "usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www",
    "opt/rabbitmq/plugins/rabbitmq_management-*/priv/www",
)
#: Of one connection, and so not passed on.
HOP_BY_HOP: Final = ("connection", "keep-alive", "transfer-encoding")
TIMEOUT_S: Final = 60.0


def files() -> Path:
    """Where the UI's files are; skips the test where they are not installed."""
    for place in PLACES:
        for found in Path("/").glob(place):
            return found
    pytest.skip(f"{NEEDS}RabbitMQ (Debian's rabbitmq-server)")


@contextmanager
def serving(broker_port: int) -> Iterator[str]:
    """The address of the UI of this broker."""
    root = files()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer is one write: two would wait for each other's acknowledgement

        def handle_any(self) -> None:
            path = urlsplit(self.path).path
            if path == "/api" or path.startswith("/api/"):
                self._forward()
            else:
                self._serve(path)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the server looks for these names

        def _serve(self, path: str) -> None:
            file = (root / (path.strip("/") or "index.html")).resolve()
            if not file.is_relative_to(root.resolve()) or not file.is_file():
                self.send_error(404)
                return
            content = file.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", mimetypes.guess_type(file.name)[0] or "text/plain")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            connection = HTTPConnection("127.0.0.1", broker_port, timeout=TIMEOUT_S)
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in (*HOP_BY_HOP, "content-length", "date"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

"""A broker's two doors, AMQP and HTTP, whoever's broker it is."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import httpx
import pika
from pika.adapters.blocking_connection import BlockingConnection

TIMEOUT_S: Final = 30.0
GUEST: Final = ("guest", "guest")


@dataclass(frozen=True)
class Doors:
    host: str
    amqp_port: int
    http_port: int
    metrics_port: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.http_port}"

    @cached_property
    def _client(self) -> httpx.Client:
        # RabbitMQ hangs up after some refusals without saying so: a kept connection may be dead already.
        return httpx.Client(timeout=TIMEOUT_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    def close(self) -> None:
        self._client.close()

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: object = None,
        *,
        auth: tuple[str, str] | None = GUEST,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """One request below /api. The path goes out as it is written: percent-encoding is the caller's."""
        url = f"{self.url}/api{path}"
        if content is not None:
            return self._client.request(method, url, content=content, auth=auth, headers=headers)
        return self._client.request(method, url, json=body, auth=auth, headers=headers)

    def get(self, path: str, *, auth: tuple[str, str] = GUEST) -> object:
        answer = self.ask(path, auth=auth)
        assert answer.status_code == httpx.codes.OK, f"GET {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def do(self, method: str, path: str, body: object = None, *, auth: tuple[str, str] = GUEST) -> httpx.Response:
        """One request that must succeed."""
        answer = self.ask(path, method, body, auth=auth)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def connect(self, name: str = "", vhost: str = "/", auth: tuple[str, str] = GUEST) -> BlockingConnection:
        return BlockingConnection(
            pika.ConnectionParameters(
                self.host,
                self.amqp_port,
                vhost,
                pika.PlainCredentials(*auth),
                heartbeat=600,
                client_properties={"connection_name": name} if name else None,
            )
        )

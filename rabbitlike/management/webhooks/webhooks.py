"""Sends webhooks for dead letters: per address one bounded queue, retries with growing delays, and a circuit breaker.

The broker's turn only records the event. A slow, unreachable or wrong address delays its own queue only: when the queue
is full, new alerts are dropped, counted and logged once. The signature covers the body as sent; the secret is never
shown.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from rabbitlike import __version__
from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.broker.policies.webhook_urls import masked
from rabbitlike.broker.queues.dead_letters.dead_lettering import retries_of
from rabbitlike.broker.views import text
from rabbitlike.management.webhooks.targets import AllowedTargets, RefusedTargetError
from rabbitlike.protocol.properties import Properties

if TYPE_CHECKING:
    import ssl

    import httpx

    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.message import Message
    from rabbitlike.broker.queues.dead_letters.x_death import Reason
    from rabbitlike.broker.queues.queue import Queue
    from rabbitlike.clock import Clock

log = logging.getLogger(__name__)

SIGNATURE: Final = "X-Rabbitlike-Signature"
DELIVERY: Final = "X-Rabbitlike-Delivery"

#: Timeout of one request.
TIMEOUT_S: Final = 5.0
#: Maximum attempts for one alert.
ATTEMPTS: Final = 6
FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 5 * 60 * 1_000
#: Consecutive failures after which an address counts as broken.
BREAK_AFTER: Final = 5
#: Minimum pause before a broken address is tried again.
BREAK_MS: Final = 30_000
#: Maximum alerts queued for one address, and below, maximum addresses.
MOST_QUEUED: Final = 1_000
MOST_TARGETS: Final = 100

State = Literal["idle", "sending", "waiting", "broken", "trying"]


@dataclass(slots=True)
class Alert:
    """The data of one dead letter. It omits the message itself, because a thousand queued alerts could be large."""

    vhost: str
    queue: str
    message_id: str | None
    address: bytes
    reason: str
    retry_count: int
    moved_at_ms: int
    payload_bytes: int
    attempts: int = 0
    #: The same for every attempt, so that a receiver can tell a retry from another dead letter.
    delivery: str = field(default_factory=lambda: str(uuid4()))

    @classmethod
    def of(cls, queue: Queue, message: Message, reason: Reason) -> Alert:
        return cls(
            queue.vhost.name,
            queue.name,
            Properties(message.properties).message_id,
            message.address,
            reason.value,
            retries_of(message, reason),
            queue.turn.now_ms,
            len(message.body),
        )

    def body(self) -> bytes:
        moved_at = datetime.fromtimestamp(self.moved_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        said = {
            "event": "dead_letter",
            "vhost": text(self.vhost),
            "queue": text(self.queue),
            "message_id": None if self.message_id is None else text(self.message_id),
            "failure_reason": self.reason,
            "retry_count": self.retry_count,
            "moved_at": moved_at.replace("+00:00", "Z"),
            "exchange": text(exchange_of(self.address)),
            "routing_key": text(routing_key_of(self.address)),
            "payload_bytes": self.payload_bytes,
        }
        return json.dumps(said).encode()


class WebhookTarget:
    """One address and its queued alerts."""

    def __init__(self, url: str, clock: Clock, post: Callable[[str, Alert], asyncio.Future[int]]) -> None:
        self.url = url
        self.state: State = "idle"
        self.sent = 0
        self.retried = 0
        #: Alerts given up after all attempts; and below, alerts dropped because the queue was full.
        self.failed = 0
        self.dropped = 0
        self.last_status: int | None = None
        self.last_error: str | None = None
        self.last_sent_at_ms: int | None = None
        self.next_attempt_at_ms: int | None = None
        self._queued: deque[Alert] = deque()
        self._clock = clock
        self._post = post
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        self._is_dropping = False
        #: Whether the log already has a warning that the address is not allowed.
        self._is_refused = False

    def offer(self, alert: Alert) -> None:
        if len(self._queued) >= MOST_QUEUED:
            self.dropped += 1
            if not self._is_dropping:
                self._is_dropping = True
                log.warning("webhook %s: %d requests are queued, dropping further ones", masked(self.url), MOST_QUEUED)
            return
        self._queued.append(alert)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="webhook")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def view(self) -> dict[str, object]:
        return {
            "url": masked(self.url),
            "state": self.state,
            "queued": len(self._queued),
            "sent": self.sent,
            "retried": self.retried,
            "failed": self.failed,
            "dropped": self.dropped,
            "last_status": self.last_status,
            "last_error": self.last_error,
            "last_sent_at": self.last_sent_at_ms,
            "next_attempt_at": self.next_attempt_at_ms,
        }

    async def _run(self) -> None:
        """Send alerts one after the other until the queue is empty."""
        try:
            while self._queued:
                await self._send(self._queued[0])
            self.state = "idle"
        finally:
            self._task = None

    async def _send(self, alert: Alert) -> None:
        self.state = "trying" if self.state == "broken" else "sending"
        alert.attempts += 1
        if alert.attempts > 1:
            self.retried += 1
        error = await self._try(alert)
        if error is None:
            self._queued.popleft()
            self.sent += 1
            self.last_sent_at_ms = self._clock.now_ms()
            if self._failures >= BREAK_AFTER:
                log.info("webhook %s answers again", masked(self.url))
            self._failures = 0
            self._is_dropping = False
            return
        self.last_error = error
        self._failures += 1
        if alert.attempts >= ATTEMPTS:
            self._queued.popleft()
            self.failed += 1
        await self._pause()

    async def _try(self, alert: Alert) -> str | None:
        """The error, or None if the attempt succeeded."""
        self.last_status = None
        try:
            self.last_status = await self._post(self.url, alert)
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:g} s"
        except RefusedTargetError as error:
            if not self._is_refused:
                self._is_refused = True
                log.warning("webhook %s is refused: %s", masked(self.url), error)
            return f"refused: {error}"
        except _faults() as error:
            return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        # Redirects are not followed: they could lead anywhere.
        return None if 200 <= self.last_status < 300 else f"answered {self.last_status}"

    async def _pause(self) -> None:
        pause_ms = min(FIRST_PAUSE_MS << (self._failures - 1), LONGEST_PAUSE_MS)
        self.state = "waiting"
        if self._failures >= BREAK_AFTER:
            self.state = "broken"
            pause_ms = max(pause_ms, BREAK_MS)
            if self._failures == BREAK_AFTER:
                log.warning("webhook %s is broken: %s", masked(self.url), self.last_error)
        self.next_attempt_at_ms = self._clock.now_ms() + pause_ms
        over = asyncio.Event()
        timer = self._clock.call_later(pause_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            self.next_attempt_at_ms = None


class Webhooks:
    """All addresses in policies' `dead-letter-webhook`."""

    def __init__(
        self, broker: Broker, secret: str | None, allow: Iterable[str] = (), timeout_s: float = TIMEOUT_S
    ) -> None:
        self._broker = broker
        self._allowed = AllowedTargets(allow)
        self._secret = None if secret is None else secret.encode()
        self._timeout_s = timeout_s
        self._targets: dict[str, WebhookTarget] = {}
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()

    def start(self) -> None:
        # httpx logs each request otherwise.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._broker.dead_letter_listeners.append(self._on_dead_letter)

    def stop(self) -> None:
        if self._on_dead_letter in self._broker.dead_letter_listeners:
            self._broker.dead_letter_listeners.remove(self._on_dead_letter)

    async def close(self) -> None:
        """Stop. Queued alerts are lost, but not the dead letters themselves."""
        self.stop()
        for target in self._targets.values():
            await target.close()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def targets(self) -> list[WebhookTarget]:
        return list(self._targets.values())

    def _on_dead_letter(self, queue: Queue, message: Message, reason: Reason) -> None:
        url = queue.settings.dead_letter_webhook
        if url is None:
            return
        target = self._targets.get(url)
        if target is None:
            self._make_room()
            target = self._targets[url] = WebhookTarget(url, self._broker.clock, self._post)
        target.offer(Alert.of(queue, message, reason))

    def _make_room(self) -> None:
        """Forget one idle address if there are many: policies come and go."""
        if len(self._targets) >= MOST_TARGETS:
            for url, target in self._targets.items():
                if target.is_idle:
                    del self._targets[url]
                    return

    def _post(self, url: str, alert: Alert) -> asyncio.Future[int]:
        return asyncio.ensure_future(self._sent(url, alert))

    async def _sent(self, url: str, alert: Alert) -> int:
        client = await self._open()
        body = alert.body()
        headers = {"Content-Type": "application/json", DELIVERY: alert.delivery}
        if self._secret is not None:
            headers[SIGNATURE] = sign(self._secret, body)
        async with (
            asyncio.timeout(self._timeout_s),
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            return answer.status_code  # the rest of the answer is ignored, however slow

    async def _open(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._client is None:
                context = await asyncio.to_thread(_load)
                from rabbitlike.management.webhooks.outbound import CheckedNetwork, make_client

                agent = f"rabbitlike/{__version__}"
                network = CheckedNetwork(self._allowed)
                self._client = make_client(network, context, self._timeout_s, MOST_TARGETS, agent)
            return self._client


def _load() -> ssl.SSLContext:
    """Import the library and load the CA certificates. Most brokers never need the library, and its import would delay
    every start; both steps would block the loop for too long."""
    import httpx

    import rabbitlike.management.webhooks.outbound  # noqa: F401

    return httpx.create_ssl_context(trust_env=False)


def _faults() -> tuple[type[Exception], ...]:
    """Exceptions that sending may raise. Called only after one was raised, when the library is already imported."""
    from rabbitlike.management.webhooks.outbound import FAULTS

    return FAULTS


def sign(secret: bytes, body: bytes) -> str:
    """The value of the signature header for a body."""
    return "sha256=" + hmac.new(secret, body, "sha256").hexdigest()

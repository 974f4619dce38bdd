"""Traffic for the demonstration: six queues, each with a problem of its own.

The consumer of `payments` stands still for a while; in `orders` low priorities starve; `emails` has a message that
never succeeds; messages expire in `reports`; `thumbnails` overflows and sometimes rejects messages; `telemetry` is many
auto-acked messages. Needs pika.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, Final

#: Shares of the total time: when high priorities flood orders, and when the consumer of payments stands still.
FLOOD: Final = (0.45, 0.8)
OUTAGE: Final = (0.55, 0.68)
POISON: Final = "invoice-0666"

ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "payments": {},
    "orders": {},
    "emails": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graveyard", "x-delivery-limit": 12},
    "reports": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graveyard", "x-message-ttl": 1500},
    "thumbnails": {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graveyard", "x-max-length": 40,
    },
    "telemetry": {},
    "graveyard": {},
}  # fmt: skip


@dataclass
class Stage:
    """State shared by all threads."""

    uri: str
    seconds: float
    began: float = field(default_factory=time.monotonic)
    over: Event = field(default_factory=Event)
    sent: int = 0
    failures: list[BaseException] = field(default_factory=list)

    @property
    def part(self) -> float:
        """Return the share of the time that is over, from 0 to 1."""
        return (time.monotonic() - self.began) / self.seconds

    def is_within(self, parts: tuple[float, float]) -> bool:
        return parts[0] <= self.part < parts[1]


def make_traffic(uri: str, seconds: float) -> int:
    """Make traffic for `seconds`; return the number of published messages."""
    _declare(uri)
    stage = Stage(uri, seconds)
    roles: list[Callable[[Stage], None]] = [
        _publish,
        lambda stage: _consume(stage, "payments", 20, _payment),
        lambda stage: _consume(stage, "orders", 1, _order),
        lambda stage: _consume(stage, "emails", 5, _email),
        lambda stage: _consume(stage, "emails", 50, _email),
        lambda stage: _consume(stage, "reports", 1, _report),
        lambda stage: _consume(stage, "thumbnails", 2, _thumbnail),
        lambda stage: _consume(stage, "telemetry", 0, None),
    ]
    threads = [Thread(target=_play, args=(role, stage), daemon=True) for role in roles]
    for thread in threads:
        thread.start()
    stage.over.wait(seconds)
    stage.over.set()
    for thread in threads:
        thread.join(30)
    if stage.failures:
        raise stage.failures[0]
    return stage.sent


def _play(role: Callable[[Stage], None], stage: Stage) -> None:
    try:
        role(stage)
    except BaseException as error:
        stage.failures.append(error)
        stage.over.set()


def _connect(uri: str) -> Any:
    try:
        import pika
    except ImportError:
        raise ValueError("the demonstration makes its traffic with pika: pip install pika") from None
    parameters = pika.URLParameters(uri)
    parameters.heartbeat = 0
    return pika.BlockingConnection(parameters)


def _declare(uri: str) -> None:
    connection = _connect(uri)
    channel = connection.channel()
    for queue, arguments in ARGUMENTS.items():
        channel.queue_declare(queue, durable=True, arguments=arguments)
    connection.close()


def _publish(stage: Stage) -> None:
    """Publish a few messages to every queue, every twentieth of a second."""
    import pika

    dice = random.Random(1)
    connection = _connect(stage.uri)
    channel = connection.channel()

    def send(queue: str, size: int, **properties: object) -> None:
        stage.sent += 1
        channel.basic_publish("", queue, dice.randbytes(size), pika.BasicProperties(**properties))

    send("emails", 700, message_id=POISON)
    beat = 0
    while not stage.over.wait(0.05):
        beat += 1
        for each in range(3):
            send("payments", dice.randrange(200, 900), message_id=f"payment-{beat}-{each}")
        # More than the consumer can handle during the flood, and first in line.
        for each in range(6 if stage.is_within(FLOOD) else 1):
            send("orders", 400, priority=9 if stage.is_within(FLOOD) else 5, message_id=f"order-{beat}-{each}")
        send("orders", 400, priority=0, message_id=f"order-{beat}-low")
        send("emails", dice.randrange(300, 4000), message_id=f"mail-{beat}")
        if beat % 2:
            send("reports", 5000, message_id=f"report-{beat}")
        for each in range(2 if beat % 40 else 60):
            send("thumbnails", 2000, message_id=f"thumb-{beat}-{each}")
        for _ in range(10):
            send("telemetry", 60)
        if beat % 50 == 0:
            send("no-such-queue", 10)
    connection.close()


#: A consumer's handling of a message: how long it takes, and whether it acks, requeues or rejects it.
Deed = Callable[[Stage, random.Random, str], tuple[float, str]]


def _payment(stage: Stage, dice: random.Random, _: str) -> tuple[float, str]:
    while stage.is_within(OUTAGE) and not stage.over.wait(0.05):
        pass
    return dice.expovariate(500), "ack"


def _order(stage: Stage, dice: random.Random, _: str) -> tuple[float, str]:
    return dice.uniform(0.006, 0.012), "ack"


def _email(stage: Stage, dice: random.Random, name: str) -> tuple[float, str]:
    trouble = name == POISON or dice.random() < (0.25 if stage.part > 0.7 else 0.06)
    return dice.expovariate(300), "requeue" if trouble else "ack"


def _report(stage: Stage, dice: random.Random, _: str) -> tuple[float, str]:
    return dice.uniform(0.05, 0.3), "ack"


def _thumbnail(stage: Stage, dice: random.Random, _: str) -> tuple[float, str]:
    return dice.uniform(0.004, 0.015), "reject" if dice.random() < 0.04 else "ack"


def _consume(stage: Stage, queue: str, prefetch: int, deed: Deed | None) -> None:
    """Consume until the time is over; without a deed, with auto-ack."""
    dice = random.Random(queue)
    connection = _connect(stage.uri)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    for method, properties, _ in channel.consume(queue, auto_ack=deed is None, inactivity_timeout=0.1):
        if stage.over.is_set():
            break
        if method is None or deed is None:
            continue
        takes_s, end = deed(stage, dice, properties.message_id or "")
        time.sleep(takes_s)
        if end == "ack":
            channel.basic_ack(method.delivery_tag)
        else:
            channel.basic_nack(method.delivery_tag, requeue=end == "requeue")
    connection.close()

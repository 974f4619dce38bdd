"""The cost of monitoring: latency of messages while a client requests a list of 10,000 queues every second."""

import base64
import http.client
import time

from benchmarks.brokers import Place, Running
from benchmarks.children import Parent, forked
from benchmarks.client import Address, Client, Refused
from benchmarks.scenarios import latency
from benchmarks.scenarios.scenario import Messages, Sample, Scenario, Unit

QUEUES = 10_000
PERIOD_S = 1.0
#: RabbitMQ takes long for its first list of this size.
LIMIT_S = 120.0
_LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


def quiet(broker: Running, seconds: float) -> Sample:
    """Measure with the same number of queues and no requests."""
    _declare(broker.address)
    return latency.paced(broker, seconds)


def polled(broker: Running, seconds: float) -> Sample:
    assert broker.http is not None
    _declare(broker.address)
    with forked(poll, broker.http, seconds) as poller:
        poller.take(LIMIT_S)
        poller.start()
        sample = latency.paced(broker, seconds)
        polls, mean_s = poller.take(LIMIT_S)
    return Sample(sample.value, {**sample.details, "polls": polls, "poll_s": mean_s})


def _declare(address: Address) -> None:
    """Declare the queues before each sample; existing ones stay."""
    with Client(address) as client:
        client.open_channel()
        for number in range(QUEUES):
            client.declare_queue(f"bench.watched.{number}")


def poll(parent: Parent, address: Address, seconds: float) -> None:
    """Request all queues each second, or as soon as the last answer has arrived, for `seconds`."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=LIMIT_S)
    _ask(connection)
    parent.ready()
    parent.await_start()
    took: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        asked = time.perf_counter()
        _ask(connection)
        took.append(time.perf_counter() - asked)
        time.sleep(max(0.0, asked + PERIOD_S - time.perf_counter()))
    parent.give(len(took), sum(took) / len(took))


def _ask(connection: http.client.HTTPConnection) -> None:
    deadline = time.perf_counter() + LIMIT_S
    while True:
        try:
            connection.request("GET", "/api/queues", headers=_LOGIN)
            answer = connection.getresponse()
            size = len(answer.read())
        except ConnectionRefusedError:
            # The API starts after AMQP.
            if time.perf_counter() > deadline:
                raise
            time.sleep(0.05)
            continue
        if answer.status != http.client.OK or size < QUEUES:
            raise Refused(f"GET /api/queues: {answer.status}, {size} octets")
        return


SCENARIOS = (
    Scenario(
        "management-quiet",
        "paced, 10,000 queues, nobody polls, p50 / p99",
        Unit.LATENCY,
        quiet,
        place=Place.MANAGED,
        messages=Messages.BODIES,
    ),
    Scenario(
        "management-poll",
        "paced, /api/queues of 10,000 polled each second, p50 / p99",
        Unit.LATENCY,
        polled,
        bar=0.5,
        place=Place.MANAGED,
        messages=Messages.BODIES,
    ),
)

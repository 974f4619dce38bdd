"""The client of `benchmarks/bystander.py`: it must see a broker that stands still, and count each message it delays."""

import os
import signal
import time

from benchmarks.bystander import beside_large, bystander
from benchmarks.client import Address
from tests.support.broker_process import running


def test_a_broker_that_stands_still_is_seen_by_all_messages_that_were_due() -> None:
    with running() as broker, bystander(Address("127.0.0.1", broker.port_of("amqp"))) as client:
        time.sleep(0.1)
        os.kill(broker.process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(broker.process.pid, signal.SIGCONT)
        time.sleep(0.3)  # to catch up, where the machine is busy
        latency = client.stop()
    assert latency.max_ms >= 450
    assert latency.p50_ms >= 20, "half a second delays a hundred messages, not one"
    assert latency.count >= 60
    assert not latency.is_within_limits


def test_large_messages_are_published_and_fetched_beside_it() -> None:
    with running() as broker:
        found = list(beside_large(Address("127.0.0.1", broker.port_of("amqp")), 5 << 20))
    assert [what for what, _, _ in found] == [
        f"{what}, {kind}"
        for kind in ("transient", "persistent")
        for what in ("publish", "publish another", "get", "get the other")
    ]
    assert all(latency.count > 10 for _, _, latency in found)

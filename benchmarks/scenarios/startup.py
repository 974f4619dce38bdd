"""Time from starting the process, with an empty data folder, to a finished AMQP handshake."""

from benchmarks.brokers import Running
from benchmarks.scenarios.scenario import Sample, Scenario, Unit


def start_up(broker: Running, seconds: float) -> Sample:
    return Sample(broker.start_s, {"rss_bytes": broker.rss_bytes(), "cpu_s": broker.cpu_seconds()})


SCENARIOS = (Scenario("start-up", "process start → AMQP handshake", Unit.SECONDS, start_up, bar=0.1, is_fresh=True),)

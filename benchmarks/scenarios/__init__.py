"""Every scenario by name, in the order they are run and shown."""

from benchmarks.scenarios import churn, idle, latency, startup, throughput
from benchmarks.scenarios.scenario import Scenario

ALL: tuple[Scenario, ...] = (
    *throughput.SCENARIOS,
    *latency.SCENARIOS,
    *churn.SCENARIOS,
    *idle.SCENARIOS,
    *startup.SCENARIOS,
)

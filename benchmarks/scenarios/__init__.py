"""Every scenario by name, in the order they are run and shown."""

from benchmarks.scenarios import (
    churn,
    delays,
    durable,
    idle,
    latency,
    management,
    ours,
    spark,
    startup,
    throughput,
    unpaced,
)
from benchmarks.scenarios.scenario import Scenario


def scenarios(backlog: int) -> tuple[Scenario, ...]:
    """All of them; `backlog` messages wait in those about backlogs."""
    return (
        *unpaced.SCENARIOS,
        *throughput.SCENARIOS,
        *latency.SCENARIOS,
        *management.SCENARIOS,
        *churn.SCENARIOS,
        *idle.SCENARIOS,
        *startup.SCENARIOS,
        *durable.SCENARIOS,
        *delays.SCENARIOS,
        *ours.SCENARIOS,
        *durable.with_backlog(backlog),
        *spark.SCENARIOS,
    )

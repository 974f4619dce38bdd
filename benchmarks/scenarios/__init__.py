"""Every scenario by name, in the order of running and display."""

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
    """Return all scenarios; those about backlogs use `backlog` messages."""
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

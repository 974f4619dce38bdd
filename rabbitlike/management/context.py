"""The context of every route: the broker, its options, and the state of the management API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from rabbitlike.broker.views import node_name
from rabbitlike.management.node.log_lines import LogLines
from rabbitlike.management.node.node import Node
from rabbitlike.management.statistics.lag import LoopLag
from rabbitlike.management.statistics.rates import Rates
from rabbitlike.management.webhooks.webhooks import Webhooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.tracing.event_search import Question
    from rabbitlike.config import Settings


@dataclass(slots=True)
class Context:
    """One per running broker."""

    broker: Broker
    settings: Settings
    #: URLs that the broker listens on.
    urls: list[str] = field(default_factory=list)
    started_at_ms: int = 0
    #: The port that serves metrics without a password; None if there is none.
    prometheus_port: int | None = None
    #: Searches event files, blocking; None if events are not written to files.
    search_event_files: Callable[[Question], list[dict[str, object]]] | None = None
    rates: Rates = field(init=False)
    node_stats: Node = field(init=False)
    lag: LoopLag = field(init=False)
    webhooks: Webhooks = field(init=False)
    logs: LogLines = field(default_factory=LogLines)

    def __post_init__(self) -> None:
        clock = self.broker.clock
        self.node_stats = Node(self.broker, self.settings)
        self.rates = Rates(self.broker, clock, self.settings.collect_statistics_interval_ms, self.node_stats.measure)
        self.lag = LoopLag(clock)
        self.webhooks = Webhooks(self.broker, self.settings.webhook_secret, self.settings.webhook_allow)

    @property
    def node(self) -> str:
        return node_name(self.settings)

    @property
    def cluster_name(self) -> str:
        """The name that an operator set, else the one in the options."""
        name = self.broker.parameters.globals.get("cluster_name")
        return name if isinstance(name, str) else self.settings.cluster_name

    def start(self) -> None:
        """Start to collect logs, rates, loop lag and webhook events."""
        self.logs.start()
        self.rates.start()
        self.lag.start()
        self.webhooks.start()

    def stop(self) -> None:
        self.rates.stop()
        self.lag.stop()
        self.webhooks.stop()
        self.logs.close()


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _given(request: Request) -> Context:
    # A coroutine, because FastAPI runs plain functions in a thread, for every request.
    return context_of(request)


#: For a route's parameters: `async def read(here: Here) -> ...`.
Here = Annotated[Context, Depends(_given)]

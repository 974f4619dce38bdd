"""What every route is given: the broker, its options, and what the management itself keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from rabbitlike.management.logins import Failures

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.config import Settings


@dataclass(slots=True)
class Context:
    """One per running broker."""

    broker: Broker
    settings: Settings
    #: Where the broker listens, as URLs.
    urls: list[str] = field(default_factory=list)
    started_at_ms: int = 0
    failures: Failures = field(init=False)

    def __post_init__(self) -> None:
        self.failures = Failures(self.broker.clock)


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


#: For a route's parameters: `async def read(here: Here) -> ...`.
Here = Annotated[Context, Depends(context_of)]

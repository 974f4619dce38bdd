"""One module per resource, each with a `router`."""

from typing import Final

from fastapi import APIRouter

import rabbitlike.management.paths  # noqa: F401 - what the routes' paths are written in
from rabbitlike.management.routes import (
    bindings,
    channels,
    connections,
    consumers,
    exchanges,
    liveness,
    messages,
    policies,
    queues,
    quorum,
    whoami,
)

#: In the order they are tried.
ROUTERS: Final[tuple[APIRouter, ...]] = (
    bindings.router,
    channels.router,
    connections.router,
    consumers.router,
    exchanges.router,
    liveness.router,
    messages.router,
    policies.router,
    queues.router,
    quorum.router,
    whoami.router,
)

"""One module per resource, each with a `router`."""

from typing import Final

from fastapi import APIRouter

import rabbitlike.management.paths  # noqa: F401 - what the routes' paths are written in
from rabbitlike.management.routes import (
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    description,
    exchanges,
    features,
    health,
    limits,
    liveness,
    logins,
    logs,
    messages,
    metrics,
    nodes,
    overview,
    parameters,
    permissions,
    plugins,
    policies,
    queues,
    quorum,
    topic_permissions,
    upkeep,
    users,
    vhosts,
    whoami,
)

#: In the order they are tried.
ROUTERS: Final[tuple[APIRouter, ...]] = (
    bindings.router,
    channels.router,
    connections.router,
    consumers.router,
    definitions.router,
    description.router,
    exchanges.router,
    features.router,
    health.router,
    limits.router,
    liveness.router,
    logins.router,
    logs.router,
    messages.router,
    metrics.router,
    nodes.router,
    overview.router,
    parameters.router,
    permissions.router,
    plugins.router,
    policies.router,
    queues.router,
    quorum.router,
    topic_permissions.router,
    upkeep.router,
    users.router,
    vhosts.router,
    whoami.router,
)

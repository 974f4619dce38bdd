"""One module per resource, each with a `router`."""

from typing import Final

from fastapi import APIRouter

import rabbitlike.management.http.paths  # noqa: F401 - registers the convertor `name` for paths
from rabbitlike.management.routes import description, pages, v1
from rabbitlike.management.routes.accounts import limits, logins, permissions, topic_permissions, users, whoami
from rabbitlike.management.routes.clients import channels, connections, consumers
from rabbitlike.management.routes.messaging import dead_letters, delayed, held, messages, rpc, traces, webhooks
from rabbitlike.management.routes.node import (
    features,
    health,
    liveness,
    logs,
    metrics,
    nodes,
    overview,
    plugins,
    upkeep,
)
from rabbitlike.management.routes.settings import definitions, parameters, policies
from rabbitlike.management.routes.topology import bindings, exchanges, queues, quorum, schemas, vhosts

#: In the order they are matched.
ROUTERS: Final[tuple[APIRouter, ...]] = (
    bindings.router,
    channels.router,
    connections.router,
    consumers.router,
    dead_letters.router,
    definitions.router,
    delayed.router,
    description.router,
    exchanges.router,
    features.router,
    health.router,
    held.router,
    limits.router,
    liveness.router,
    logins.router,
    logs.router,
    messages.router,
    metrics.router,
    nodes.router,
    overview.router,
    pages.router,
    parameters.router,
    permissions.router,
    plugins.router,
    policies.router,
    queues.router,
    quorum.router,
    rpc.router,
    schemas.router,
    topic_permissions.router,
    traces.router,
    upkeep.router,
    users.router,
    v1.router,
    vhosts.router,
    webhooks.router,
    whoami.router,
)

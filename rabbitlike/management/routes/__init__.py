"""One module per resource, each with a `router`."""

from typing import Final

from fastapi import APIRouter

import rabbitlike.management.paths  # noqa: F401 - what the routes' paths are written in
from rabbitlike.management.routes import liveness, policies, whoami

#: In the order they are tried.
ROUTERS: Final[tuple[APIRouter, ...]] = (liveness.router, policies.router, whoami.router)

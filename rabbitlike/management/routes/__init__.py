"""One module per resource, each with a `router`."""

from typing import Final

from fastapi import APIRouter

from rabbitlike.management.routes import liveness, whoami

#: In the order they are tried.
ROUTERS: Final[tuple[APIRouter, ...]] = (liveness.router, whoami.router)

"""Liveness for probes without a password: is the broker up? For readiness see health.py."""

from rabbitlike import __version__
from rabbitlike.management.http.routing import Router

router = Router(prefix="")


@router.get("/")
async def root() -> dict[str, str]:
    return {"name": "rabbitlike", "version": __version__}

"""What a probe without a password may ask: is the broker up? Is it ready: see health.py."""

from rabbitlike import __version__
from rabbitlike.management.http.routing import Router

router = Router(prefix="")


@router.get("/")
async def root() -> dict[str, str]:
    return {"name": "rabbitlike", "version": __version__}

"""What a probe without a password may ask: is the broker up? Is it ready: see health.py."""

from fastapi import APIRouter

from rabbitlike import __version__

router = APIRouter()


@router.get("/")
async def root() -> dict[str, str]:
    return {"name": "rabbitlike", "version": __version__}

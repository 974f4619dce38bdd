"""What a probe without a password may ask: is the broker up?"""

from fastapi import APIRouter

from rabbitlike import __version__

router = APIRouter()


@router.get("/")
async def root() -> dict[str, str]:
    return {"name": "rabbitlike", "version": __version__}


@router.get("/api/health/checks/ready-to-serve-clients")
async def ready_to_serve_clients() -> dict[str, str]:
    return {"status": "ok"}

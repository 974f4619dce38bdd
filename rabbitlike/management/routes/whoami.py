"""Who the caller is."""

from fastapi import APIRouter

from rabbitlike.management.auth import Member

router = APIRouter(prefix="/api")


@router.get("/whoami")
async def whoami(caller: Member) -> dict[str, object]:
    return {"name": caller.user.name, "tags": list(caller.user.tags), "is_internal_user": True}

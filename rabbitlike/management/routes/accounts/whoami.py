"""The user that is logged in."""

from rabbitlike.management.auth import Member
from rabbitlike.management.http.routing import Router

router = Router()


@router.get("/whoami")
async def whoami(caller: Member) -> dict[str, object]:
    return {"name": caller.user.name, "tags": list(caller.user.tags), "is_internal_user": True}

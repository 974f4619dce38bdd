"""Users: list, show, create, change and delete them, and list their permissions.

For administrators only: the view of a user contains its password hash, which definitions need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response
from pydantic import BaseModel, JsonValue

from rabbitlike.management.auth import Administrator, Caller
from rabbitlike.management.http.bodies import to_tags
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.routes.accounts.permissions import PermissionBody, permission_views
from rabbitlike.management.routes.accounts.topic_permissions import topic_permission_views
from rabbitlike.management.turns import change, stored

if TYPE_CHECKING:
    from rabbitlike.broker.accounts.users import User

router = Router("users")

ORDER = ("name",)
MAX_TAGS = 32


class UserBody(BaseModel):
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: str | list[str] | None = None
    #: Predates tags.
    administrator: bool | None = None
    limits: JsonValue = None
    #: By vhost; for new users only.
    permissions: dict[str, PermissionBody] = {}

    def tag_list(self) -> list[str]:
        if self.tags is None:
            if self.administrator is None:
                raise bad_request("tags_not_present")
            return ["administrator"] if self.administrator else []
        tags = to_tags(self.tags)
        if len(tags) > MAX_TAGS:
            raise bad_request(f"A user can have at most {MAX_TAGS} tags (received {len(tags)})")
        return tags


class BulkBody(BaseModel):
    users: list[str]


def view(user: User) -> dict[str, object]:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": user.limits,
    }


def find(caller: Caller, name: str) -> User:
    user = caller.context.broker.users.get(name)
    if user is None:
        raise not_found()
    return user


@router.get("/users", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, caller: Administrator) -> Response:
    return await lists.answer(request, list(caller.context.broker.users), view, order=ORDER)


@router.get("/users/without-permissions", response_model=None, openapi_extra=lists.PAGED)
async def read_those_without_permissions(request: Request, caller: Administrator) -> Response:
    broker = caller.context.broker
    permitted = {user for user, _, _ in broker.permissions}
    found = [user for user in broker.users if user.name not in permitted]
    return await lists.answer(request, found, view, order=ORDER)


@router.post("/users/bulk-delete", status_code=204, response_model=None)
async def delete_several(caller: Administrator, body: BulkBody) -> Response:
    """Delete all of these users, or none if one does not exist."""
    broker = caller.context.broker
    if unknown := [name for name in body.users if name not in broker.users]:
        raise bad_request(["no_such_user", unknown[0]])
    for name in body.users:
        with change(broker):
            broker.delete_user(name)
    await stored(broker)
    return Response(status_code=204)


@router.get("/users/{user:name}", response_model=None)
async def read(request: Request, caller: Administrator, user: str) -> Response:
    return lists.one(request, view(find(caller, user)))


@router.put("/users/{user:name}", status_code=201, responses={204: {}}, response_model=None)
async def put(caller: Administrator, user: str, body: UserBody) -> Response:
    """Create or change a user. Without password and hash, the user cannot log in by password."""
    broker = caller.context.broker
    tags = body.tag_list()
    for vhost in body.permissions:
        if vhost not in broker.vhosts:
            raise bad_request(["no_such_vhost", vhost])
    granted = {vhost: each.permission() for vhost, each in body.permissions.items()}
    with change(broker):
        is_new = broker.set_user(
            user,
            password=body.password,
            password_hash=body.password_hash,
            hashing_algorithm=body.hashing_algorithm,
            tags=tags,
            limits=body.limits,
        )
        for vhost, permission in granted.items() if is_new else ():
            broker.set_permission(user, vhost, permission)
    await stored(broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/users/{user:name}", status_code=204, response_model=None)
async def delete(caller: Administrator, user: str) -> Response:
    """Delete a user and close its connections."""
    find(caller, user)
    broker = caller.context.broker
    with change(broker):
        broker.delete_user(user)
    await stored(broker)
    return Response(status_code=204)


@router.get("/users/{user:name}/permissions", response_model=None)
async def read_permissions(request: Request, caller: Administrator, user: str) -> Response:
    find(caller, user)
    found = [each for each in permission_views(caller.context.broker) if each["user"] == user]
    return await lists.answer(request, found, order=("vhost", "user"), is_paged=False)


@router.get("/users/{user:name}/topic-permissions", response_model=None)
async def read_topic_permissions(request: Request, caller: Administrator, user: str) -> Response:
    find(caller, user)
    found = [each for each in topic_permission_views(caller.context.broker) if each["user"] == user]
    return await lists.answer(request, found, order=("vhost", "user"), is_paged=False)

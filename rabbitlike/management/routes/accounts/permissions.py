"""Permissions of users to configure, write and read in vhosts. Open channels obey a change at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response
from pydantic import BaseModel

from rabbitlike.broker.accounts.permissions import Permission
from rabbitlike.management.auth import Administrator
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.turns import change, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.broker import Broker

router = Router("permissions")

ORDER = ("vhost", "user")


class PermissionBody(BaseModel):
    configure: str
    write: str
    read: str

    def permission(self) -> Permission:
        try:
            return Permission(self.configure, self.write, self.read)
        except ValueError as problem:
            raise bad_request(str(problem)) from None


def view(user: str, vhost: str, permission: Permission) -> dict[str, object]:
    return {
        "user": user,
        "vhost": vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def permission_views(broker: Broker) -> Iterator[dict[str, object]]:
    return (view(*each) for each in list(broker.permissions))


@router.get("/permissions", response_model=None)
async def read_all(request: Request, caller: Administrator) -> Response:
    return await lists.answer(request, permission_views(caller.context.broker), order=ORDER, is_paged=False)


@router.get("/permissions/{vhost:name}/{user:name}", response_model=None)
async def read(request: Request, caller: Administrator, vhost: str, user: str) -> Response:
    permission = caller.context.broker.permissions.get(user, vhost)
    if permission is None:
        raise not_found()
    return lists.one(request, view(user, vhost, permission))


@router.put("/permissions/{vhost:name}/{user:name}", status_code=201, responses={204: {}}, response_model=None)
async def put(caller: Administrator, vhost: str, user: str, body: PermissionBody) -> Response:
    broker = caller.context.broker
    with change(broker):
        is_new = broker.set_permission(user, vhost, body.permission())
    await stored(broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/permissions/{vhost:name}/{user:name}", status_code=204, response_model=None)
async def delete(caller: Administrator, vhost: str, user: str) -> Response:
    broker = caller.context.broker
    with change(broker):
        if not broker.clear_permission(user, vhost):
            raise not_found()
    await stored(broker)
    return Response(status_code=204)

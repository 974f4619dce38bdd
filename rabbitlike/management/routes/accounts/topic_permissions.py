"""Topic permissions: the routing keys that users may write and read at topic exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response
from pydantic import BaseModel

from rabbitlike.broker.accounts.permissions import TopicPermission
from rabbitlike.management.auth import Administrator
from rabbitlike.management.http.bodies import exchange_name
from rabbitlike.management.http.errors import not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.turns import change, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.broker import Broker

router = Router("permissions")

ORDER = ("vhost", "user")


class TopicPermissionBody(BaseModel):
    exchange: str
    write: str
    read: str


def view(user: str, vhost: str, exchange: str, permission: TopicPermission) -> dict[str, object]:
    return {
        "user": user,
        "vhost": vhost,
        "exchange": exchange,
        "write": permission.write,
        "read": permission.read,
    }


def topic_permission_views(broker: Broker) -> Iterator[dict[str, object]]:
    return (view(*each) for each in list(broker.permissions.topics()))


@router.get("/topic-permissions", response_model=None)
async def read_all(request: Request, caller: Administrator) -> Response:
    return await lists.answer(request, topic_permission_views(caller.context.broker), order=ORDER, is_paged=False)


@router.get("/topic-permissions/{vhost:name}/{user:name}", response_model=None)
async def read(request: Request, caller: Administrator, vhost: str, user: str) -> Response:
    """The topic permissions of a user in a vhost. parity: a list, as there may be one for each exchange."""
    views = topic_permission_views(caller.context.broker)
    found = [each for each in views if (each["vhost"], each["user"]) == (vhost, user)]
    if not found:
        raise not_found()
    return await lists.answer(request, found, order=("exchange",), is_paged=False)


@router.put("/topic-permissions/{vhost:name}/{user:name}", status_code=201, responses={204: {}}, response_model=None)
async def put(caller: Administrator, vhost: str, user: str, body: TopicPermissionBody) -> Response:
    broker = caller.context.broker
    # parity: 201 if the user had no topic permission at any exchange of the vhost.
    is_new = not broker.permissions.topic_exchanges(user, vhost)
    with change(broker):
        broker.set_topic_permission(user, vhost, body.exchange, TopicPermission(body.write, body.read))
    await stored(broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/topic-permissions/{vhost:name}/{user:name}", status_code=204, response_model=None)
async def delete_all(caller: Administrator, vhost: str, user: str) -> Response:
    return await _delete(caller.context.broker, vhost, user, None)


@router.delete("/topic-permissions/{vhost:name}/{user:name}/{exchange:name}", status_code=204, response_model=None)
async def delete(caller: Administrator, vhost: str, user: str, exchange: str) -> Response:
    return await _delete(caller.context.broker, vhost, user, exchange_name(exchange))


async def _delete(broker: Broker, vhost: str, user: str, exchange: str | None) -> Response:
    with change(broker):
        if not broker.clear_topic_permission(user, vhost, exchange):
            raise not_found()
    await stored(broker)
    return Response(status_code=204)

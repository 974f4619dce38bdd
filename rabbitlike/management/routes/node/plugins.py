"""Empty lists for objects of RabbitMQ plugins that this broker does not have.

Tools request them without a check of the enabled plugins, and stop at a 404.
"""

from __future__ import annotations

from rabbitlike.management.auth import Administrator, Member, Monitor
from rabbitlike.management.http.replies import Reply
from rabbitlike.management.http.routing import Router

router = Router()


@router.get("/federation-links")
@router.get("/federation-links/state/down")
@router.get("/shovels")
async def links(caller: Monitor) -> Reply:
    return Reply([])


@router.get("/federation-links/{vhost:name}")
@router.get("/federation-links/{vhost:name}/state/down")
@router.get("/shovels/{vhost:name}")
async def links_of(vhost: str, caller: Monitor) -> Reply:
    caller.vhost(vhost)
    return Reply([])


@router.get("/stream/connections")
@router.get("/stream/consumers")
@router.get("/stream/publishers")
async def streams(caller: Member) -> Reply:
    return Reply([])


@router.get("/stream/connections/{vhost:name}")
@router.get("/stream/consumers/{vhost:name}")
@router.get("/stream/publishers/{vhost:name}")
async def streams_of(vhost: str, caller: Member) -> Reply:
    caller.vhost(vhost)
    return Reply([])


@router.get("/traces")
@router.get("/trace-files")
async def traces(caller: Administrator) -> Reply:
    return Reply([])


@router.get("/traces/{vhost:name}")
async def traces_of(vhost: str, caller: Administrator) -> Reply:
    caller.vhost(vhost)
    return Reply([])

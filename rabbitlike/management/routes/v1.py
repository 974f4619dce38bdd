"""The admin routes of the queue model, `/api/v1/queues…`, with its bodies and errors. Beyond RabbitMQ.

The paths contain no vhost: `?vhost=` selects one, else the default vhost is used.
"""

from __future__ import annotations

from functools import partial
from json import dumps
from typing import Annotated, Final, TypeAlias
from uuid import uuid4

from fastapi import Query, Request, Response
from pydantic import Field, JsonValue

from rabbitlike.broker import views
from rabbitlike.broker.accounts import access
from rabbitlike.broker.policies.keys import POLICY
from rabbitlike.broker.policies.policies import Policy, make_policy
from rabbitlike.broker.publishing import verbs
from rabbitlike.broker.queues.queue import Queue
from rabbitlike.broker.vhost import Vhost, plain_name
from rabbitlike.management import dead_letters
from rabbitlike.management.auth import Caller, Member, Policymaker
from rabbitlike.management.context import Context, Here
from rabbitlike.management.dead_letters import DeadLetterFilter
from rabbitlike.management.http.bodies import Arguments, Body, checked_name
from rabbitlike.management.http.errors import ApiError, bad_request
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists, shown
from rabbitlike.management.messages import filter_of, to_properties
from rabbitlike.management.queue_config import (
    PRIORITY,
    NewQueue,
    QueueConfig,
    config_of,
    pattern_of,
    policy_name,
)
from rabbitlike.management.routes.messaging.dead_letters import retry_dead_letter
from rabbitlike.management.routes.settings.policies import applied, whole_definition
from rabbitlike.management.statistics.queue_stats import stats_of
from rabbitlike.management.turns import check_unblocked, stored, turn

router = Router("v1", prefix="/api/v1")

DEFAULT_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 9

In: TypeAlias = Annotated[str | None, Query(description="The vhost; without it the default one.", alias="vhost")]


def _home(here: Context, caller: Caller, vhost: str | None) -> Vhost:
    return caller.vhost(here.broker.settings.default_vhost if vhost is None else vhost, "vhost_not_found")


def _find(here: Context, caller: Caller, vhost: str | None, name: str) -> Queue:
    home = _home(here, caller, vhost)
    queue = home.queues.get(name)
    if queue is None:
        raise ApiError(404, "QueueNotFound", f"no queue '{views.text(name)}' in vhost '{views.text(home.name)}'")
    return queue


def _shown(here: Context, queue: Queue) -> dict[str, object]:
    return {
        "name": views.text(queue.name),
        "vhost": views.text(queue.vhost.name),
        "durable": queue.durable,
        **config_of(queue),
        "stats": stats_of(here, queue),
    }


def _policy(home: Vhost, name: str, config: QueueConfig) -> Policy:
    """The policy for this configuration. Raises 400."""
    try:
        return make_policy(
            home.name,
            policy_name(name),
            POLICY,
            pattern=pattern_of(name),
            definition=whole_definition(config.definition(), home.policies.get(POLICY, policy_name(name))),
            priority=PRIORITY,
            apply_to="queues",
        )
    except ValueError as problem:
        raise bad_request(str(problem)) from None


def _apply(home: Vhost, policy: Policy, config: QueueConfig) -> None:
    """Call within a turn."""
    topic = config.dlq_config.topic
    if config.dlq_config.enabled and topic and topic not in home.queues:
        home.declare_queue(topic, durable=True)
    home.policies.set(policy)


def _permit(caller: Caller, home: Vhost, name: str, config: QueueConfig) -> None:
    arguments = config.arguments()
    access.declare_queue(caller.permit_in(home), home, name, arguments)
    if topic := config.dlq_config.topic:
        caller.permit_in(home)("configure", "queue", checked_name(topic, "queue"))
        caller.permit_in(home)("write", "exchange", "")


@router.post("/queues", status_code=201, response_model=None)
async def create(request: Request, here: Here, caller: Policymaker, body: NewQueue, vhost: In = None) -> Response:
    """Create a durable queue with this configuration. Dead letters are kept unless `dlq_config.enabled` is false."""
    home = _home(here, caller, vhost)
    name = plain_name(checked_name(body.name, "queue"))
    if name in home.queues:
        raise ApiError(409, "QueueExists", f"there is a queue '{views.text(name)}' already")
    _permit(caller, home, name, body)
    policy = _policy(home, name, body)
    with turn(here.broker):
        queue = home.declare_queue(name, durable=True, arguments=body.arguments())
        _apply(home, policy, body)
    await applied(home)
    return lists.one(request, _shown(here, queue), 201)


@router.get("/queues", response_model=None, openapi_extra=lists.PAGED)
async def read_all(request: Request, here: Here, caller: Member, vhost: In = None) -> Response:
    items = shown.queues_in([_home(here, caller, vhost)])
    return await lists.answer(
        request,
        items,
        lambda queue: _shown(here, queue),
        order=("name",),
        name_of=lambda queue: queue.name,
        key_of=lambda queue: (queue.name,),
    )


@router.get("/queues/{queue:name}", response_model=None)
async def read(request: Request, here: Here, caller: Member, queue: str, vhost: In = None) -> Response:
    return lists.one(request, _shown(here, _find(here, caller, vhost, queue)))


@router.put("/queues/{queue:name}/config", response_model=None)
async def configure(
    request: Request, here: Here, caller: Policymaker, queue: str, body: QueueConfig, vhost: In = None
) -> Response:
    """Replace the configuration, at once; the partitioning stays as declared."""
    found = _find(here, caller, vhost, queue)
    _permit(caller, found.vhost, queue, body)
    for key, value in body.arguments().items():
        if found.arguments.get(key) != value:
            raise bad_request(
                f"{key} cannot be changed: it is {found.arguments.get(key)!r} since the queue was declared"
            )
    policy = _policy(found.vhost, queue, body)
    with turn(here.broker):
        _apply(found.vhost, policy, body)
    await applied(found.vhost)
    return lists.one(request, _shown(here, found))


@router.delete("/queues/{queue:name}", status_code=204, response_model=None)
async def delete(here: Here, caller: Member, queue: str, vhost: In = None) -> Response:
    """Delete the queue and its configuration; its dead letters remain."""
    found = _find(here, caller, vhost, queue)
    caller.permit_in(found.vhost)("configure", "queue", queue)
    home = found.vhost
    with turn(here.broker):
        home.delete_queue(home.queue(queue))
        home.policies.clear(POLICY, policy_name(queue))
    await applied(home)
    return Response(status_code=204)


@router.get("/queues/{queue:name}/stats", response_model=None)
async def read_stats(request: Request, here: Here, caller: Member, queue: str, vhost: In = None) -> Response:
    return lists.one(request, stats_of(here, _find(here, caller, vhost, queue)))


@router.get("/queues/{queue:name}/consumers", response_model=None)
async def read_consumers(request: Request, here: Here, caller: Member, queue: str, vhost: In = None) -> Response:
    found = _find(here, caller, vhost, queue)
    return await lists.answer(request, views.consumers_of(found), order=("consumer_tag",), is_paged=False)


@router.post("/queues/{queue:name}/purge", response_model=None)
async def purge(here: Here, caller: Member, queue: str, vhost: In = None) -> dict[str, int]:
    found = _find(here, caller, vhost, queue)
    caller.permit_in(found.vhost)("read", "queue", queue)
    with turn(here.broker):
        purged = found.vhost.queue(queue).purge()
    await stored(here.broker)
    return {"purged": purged}


class NewMessage(Body):
    message: JsonValue
    priority: int = DEFAULT_PRIORITY
    ttl: Annotated[float, Field(gt=0, le=315_360_000)] | None = None
    headers: Arguments = Field(default_factory=dict)


@router.post("/queues/{queue:name}/messages", status_code=201, response_model=None)
async def publish(here: Here, caller: Member, queue: str, body: NewMessage, vhost: In = None) -> dict[str, object]:
    """Publish to the queue: a text unchanged, anything else as JSON. Returns its position and id."""
    found = _find(here, caller, vhost, queue)
    if not 0 <= body.priority <= HIGHEST_PRIORITY:
        raise ApiError(400, "InvalidPriority", f"{body.priority} is not between 0 and {HIGHEST_PRIORITY}")
    check_unblocked(here.broker)
    is_text = isinstance(body.message, str)
    message_id = str(uuid4())
    given: dict[str, JsonValue] = {
        "message_id": message_id,
        "priority": body.priority,
        "delivery_mode": 2,
        "content_type": "text/plain" if is_text else "application/json",
        "headers": body.headers or None,
        "expiration": None if body.ttl is None else str(round(body.ttl * 1000)),
        "timestamp": here.broker.clock.now_ms() // 1000,
    }
    octets = str(body.message).encode("utf-8", "surrogatepass") if is_text else dumps(body.message).encode()
    with turn(here.broker):
        published = verbs.publish(found.vhost, "", queue, to_properties(given), octets, caller.user)
        position = found.last_position
    if not published.is_accepted:
        raise ApiError(429, "QueueFull", f"queue '{views.text(queue)}' is full")
    if published.is_stored:
        await stored(here.broker)
    return {"message_id": message_id, "position": position, "routed": published.is_routed}


@router.get("/queues/{queue:name}/dlq", response_model=None)
async def read_dead_letters(
    request: Request,
    here: Here,
    caller: Member,
    queue: str,
    vhost: In = None,
    reason: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    found = _find(here, caller, vhost, queue)
    caller.permit_in(found.vhost)("read", "queue", queue)
    sources = dead_letters.sources_of(caller, found)
    wanted = DeadLetterFilter.of(found, filter_of(request.query_params), reason)
    page = await dead_letters.page(sources, wanted, limit, after)
    show = partial(dead_letters.dead_letter_view, encoding="auto", truncate=None)
    return await lists.written(request, page.dead_letters, show, {"next": page.following}, "messages")


@router.post("/queues/{queue:name}/dlq/{letter:name}/retry", response_model=None)
async def retry(here: Here, caller: Member, queue: str, letter: str, vhost: In = None) -> dict[str, object]:
    found = _find(here, caller, vhost, queue)
    caller.permit_in(found.vhost)("read", "queue", queue)
    try:
        await retry_dead_letter(here, caller, found, letter)
    except ApiError as error:
        if error.status == 404:
            raise ApiError(404, "MessageNotFound", "there is no such dead letter") from None
        raise
    return {"success": True, "retried": 1}

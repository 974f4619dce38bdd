"""Policies and operator policies: named settings that may change while queues and exchanges are in use.

parity: users who see a vhost may list its policies; policymakers set policies, administrators operator policies.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, Field, JsonValue

from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY, PolicyKind
from rabbitlike.broker.policies.policies import Policy, make_policy
from rabbitlike.broker.policies.webhook_urls import unmasked_definition
from rabbitlike.broker.terms import Json
from rabbitlike.broker.vhost import Vhost
from rabbitlike.management.auth import Administrator, Caller, Member, Policymaker
from rabbitlike.management.http.errors import bad_request, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.turns import stored, turn

router = Router()


class PolicyBody(BaseModel):
    """A policy as sent; the broker validates it."""

    pattern: JsonValue
    definition: JsonValue
    priority: JsonValue = 0
    apply_to: Annotated[JsonValue, Field(alias="apply-to")] = "all"


@router.get("/policies")
async def list_policies(request: Request, caller: Member) -> Response:
    return await _list(request, caller, POLICY)


@router.get("/operator-policies")
async def list_operator_policies(request: Request, caller: Member) -> Response:
    return await _list(request, caller, OPERATOR_POLICY)


@router.get("/policies/{vhost:name}")
async def list_policies_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    return await _list(request, caller, POLICY, caller.vhost(vhost))


@router.get("/operator-policies/{vhost:name}")
async def list_operator_policies_of_vhost(request: Request, caller: Member, vhost: str) -> Response:
    return await _list(request, caller, OPERATOR_POLICY, caller.vhost(vhost))


@router.get("/policies/{vhost:name}/{policy:name}")
async def read_policy(request: Request, caller: Policymaker, vhost: str, policy: str) -> Response:
    return lists.one(request, _find(caller, vhost, POLICY, policy).shown())


@router.get("/operator-policies/{vhost:name}/{policy:name}")
async def read_operator_policy(request: Request, caller: Administrator, vhost: str, policy: str) -> Response:
    return lists.one(request, _find(caller, vhost, OPERATOR_POLICY, policy).shown())


@router.put("/policies/{vhost:name}/{policy:name}")
async def set_policy(caller: Policymaker, vhost: str, policy: str, body: PolicyBody) -> Response:
    return await _set(caller, vhost, POLICY, policy, body)


@router.put("/operator-policies/{vhost:name}/{policy:name}")
async def set_operator_policy(caller: Administrator, vhost: str, policy: str, body: PolicyBody) -> Response:
    return await _set(caller, vhost, OPERATOR_POLICY, policy, body)


@router.delete("/policies/{vhost:name}/{policy:name}")
async def clear_policy(caller: Policymaker, vhost: str, policy: str) -> Response:
    return await _clear(caller, vhost, POLICY, policy)


@router.delete("/operator-policies/{vhost:name}/{policy:name}")
async def clear_operator_policy(caller: Administrator, vhost: str, policy: str) -> Response:
    return await _clear(caller, vhost, OPERATOR_POLICY, policy)


async def _list(request: Request, caller: Caller, kind: PolicyKind, vhost: Vhost | None = None) -> Response:
    vhosts = caller.context.broker.vhosts.values() if vhost is None else [vhost]
    found = [policy for each in vhosts if caller.may_list(each.name) for policy in each.policies.all(kind)]
    # parity: by priority
    return await lists.answer(request, found, Policy.shown, order=("priority", "vhost", "name"), is_paged=False)


def _find(caller: Caller, vhost: str, kind: PolicyKind, name: str) -> Policy:
    policy = caller.vhost(vhost).policies.get(kind, name)
    if policy is None:
        raise not_found()
    return policy


async def _set(caller: Caller, vhost: str, kind: PolicyKind, name: str, body: PolicyBody) -> Response:
    broker = caller.context.broker
    if vhost not in broker.vhosts:
        raise not_found("vhost_not_found")
    home = caller.vhost(vhost)
    known = home.policies.get(kind, name)
    try:
        policy = make_policy(
            vhost,
            name,
            kind,
            pattern=body.pattern,
            definition=whole_definition(body.definition, known),
            priority=body.priority,
            apply_to=body.apply_to,
        )
    except ValueError as error:
        raise bad_request(str(error)) from None
    with turn(broker):
        is_new = home.policies.set(policy)
    await applied(home)
    return Response(status_code=201 if is_new else 204)


def whole_definition(definition: Json, known: Policy | None) -> Json:
    """The definition as sent, with masked credentials restored from the known policy. Raises ValueError."""
    if not isinstance(definition, dict):
        return definition
    return unmasked_definition(definition, {} if known is None else known.definition)


async def _clear(caller: Caller, vhost: str, kind: PolicyKind, name: str) -> Response:
    broker = caller.context.broker
    home = caller.vhost(vhost)
    with turn(broker):
        is_gone = home.policies.clear(kind, name)
    if not is_gone:
        raise not_found()
    await applied(home)
    return Response(status_code=204)


async def applied(vhost: Vhost) -> None:
    """Wait until all queues have the change and it is stored. Queues also get it if the caller disconnects."""
    while vhost.policies.is_behind:
        await asyncio.sleep(0)
        with turn(vhost.broker):
            vhost.policies.catch_up()
    await stored(vhost.broker)

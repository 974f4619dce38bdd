"""Runtime parameters of components by vhost, and global ones. For policymakers with a permission in the vhost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request, Response
from pydantic import BaseModel, JsonValue

from rabbitlike.broker.policies.keys import OPERATOR_POLICY
from rabbitlike.broker.policies.parameters import Parameter
from rabbitlike.management.auth import Caller, Policymaker
from rabbitlike.management.http.errors import not_authorised, not_found
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.turns import change, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rabbitlike.broker.broker import Broker

router = Router("parameters")


class ParameterBody(BaseModel):
    value: JsonValue


def view(parameter: Parameter) -> dict[str, object]:
    return {
        "value": parameter.value,
        "vhost": parameter.vhost,
        "component": parameter.component,
        "name": parameter.name,
    }


def _check_vhost(caller: Caller, vhost: str, reason: str = "") -> None:
    if vhost not in caller.context.broker.vhosts:
        raise not_found(reason)
    if not caller.may_list(vhost):
        raise not_authorised("User not authorised to access object")


@router.get("/parameters", response_model=None)
async def read_all(request: Request, caller: Policymaker) -> Response:
    return await _list(request, caller, None)


@router.get("/parameters/{component:name}", response_model=None)
async def read_those_of_component(request: Request, caller: Policymaker, component: str) -> Response:
    return await _list(request, caller, component)


@router.get("/parameters/{component:name}/{vhost:name}", response_model=None)
async def read_those_of_vhost(request: Request, caller: Policymaker, component: str, vhost: str) -> Response:
    _check_vhost(caller, vhost)
    return await _list(request, caller, component, vhost)


def _all(broker: Broker) -> Iterator[Parameter]:
    """parity: operator policies appear among the parameters too, as in RabbitMQ; other routes set them."""
    yield from broker.parameters
    for vhost in broker.vhosts.values():
        for policy in vhost.policies.all(OPERATOR_POLICY):
            yield Parameter(vhost.name, OPERATOR_POLICY, policy.name, policy.value())


async def _list(request: Request, caller: Caller, component: str | None, vhost: str | None = None) -> Response:
    found = [
        each
        for each in _all(caller.context.broker)
        if component in (None, each.component) and vhost in (None, each.vhost) and caller.may_list(each.vhost)
    ]
    return await lists.answer(request, found, view, is_paged=False)


@router.get("/parameters/{component:name}/{vhost:name}/{parameter:name}", response_model=None)
async def read(request: Request, caller: Policymaker, component: str, vhost: str, parameter: str) -> Response:
    _check_vhost(caller, vhost)
    for each in _all(caller.context.broker):
        if each[:3] == (vhost, component, parameter):
            return lists.one(request, view(each))
    raise not_found()


@router.put(
    "/parameters/{component:name}/{vhost:name}/{parameter:name}",
    status_code=201,
    responses={204: {}},
    response_model=None,
)
async def put(caller: Policymaker, component: str, vhost: str, parameter: str, body: ParameterBody) -> Response:
    _check_vhost(caller, vhost, "vhost_not_found")
    broker = caller.context.broker
    with change(broker):
        is_new = broker.set_parameter(vhost, component, parameter, body.value)
    await stored(broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/parameters/{component:name}/{vhost:name}/{parameter:name}", status_code=204, response_model=None)
async def delete(caller: Policymaker, component: str, vhost: str, parameter: str) -> Response:
    _check_vhost(caller, vhost)
    broker = caller.context.broker
    with change(broker):
        if not broker.clear_parameter(vhost, component, parameter):
            raise not_found()
    await stored(broker)
    return Response(status_code=204)


@router.get("/global-parameters", response_model=None)
async def read_global_ones(request: Request, caller: Policymaker) -> Response:
    found = [{"name": name, "value": value} for name, value in caller.context.broker.parameters.globals.items()]
    return await lists.answer(request, found, order=("name",), is_paged=False)


@router.get("/global-parameters/{parameter:name}", response_model=None)
async def read_global(request: Request, caller: Policymaker, parameter: str) -> Response:
    known = caller.context.broker.parameters.globals
    if parameter not in known:
        raise not_found()
    return lists.one(request, {"value": known[parameter], "name": parameter})


@router.put("/global-parameters/{parameter:name}", status_code=201, responses={204: {}}, response_model=None)
async def put_global(caller: Policymaker, parameter: str, body: ParameterBody) -> Response:
    broker = caller.context.broker
    with change(broker):
        is_new = broker.set_global_parameter(parameter, body.value)
    await stored(broker)
    return Response(status_code=201 if is_new else 204)


@router.delete("/global-parameters/{parameter:name}", status_code=204, response_model=None)
async def delete_global(caller: Policymaker, parameter: str) -> Response:
    broker = caller.context.broker
    with change(broker):
        if not broker.clear_global_parameter(parameter):
            raise not_found()
    await stored(broker)
    return Response(status_code=204)

"""Policies, operator policies and parameters: `policies`, and the parts of `declare` and `delete` for them."""

import json
from typing import Annotated, Any

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.declaring import declare, delete, gone, made
from rabbitlike.commands.listing import list_command, named
from rabbitlike.commands.names import NewName, PolicyName
from rabbitlike.commands.values import json_object

group = typer.Typer(help="Set and clear policies.", no_args_is_help=True)

Pattern = Annotated[
    str, typer.Argument(metavar="PATTERN", help="Regular expression that names must match.", show_default=False)
]
Definition = Annotated[
    str, typer.Argument(metavar="DEFINITION", help='JSON, such as {"max-length": 1000}.', show_default=False)
]
Priority = Annotated[
    int, typer.Option("--priority", help="Of all policies that match, the one with the highest priority applies.")
]
ApplyTo = Annotated[str, typer.Option("--apply-to", help="all, queues, exchanges, …", metavar="KIND")]
Operator = Annotated[bool, typer.Option("--operator", help="An operator policy, which limits other policies.")]


def set_policy(
    call: Call,
    name: NewName,
    pattern: Pattern,
    definition: Definition,
    priority: Priority = 0,
    apply_to: ApplyTo = "all",
    operator: Operator = False,
) -> None:
    """Set a policy; it applies at once to all queues and exchanges whose names match."""
    body: View = {
        "pattern": pattern,
        "definition": json_object(definition, "DEFINITION"),
        "priority": priority,
        "apply-to": apply_to,
    }
    is_new = call.api.put(_resource(operator), call.vhost, name, body=body)
    made(call, is_new, _kind(operator), name, "set", vhost=call.vhost)


def set_operator_policy(
    call: Call,
    name: NewName,
    pattern: Pattern,
    definition: Definition,
    priority: Priority = 0,
    apply_to: ApplyTo = "queues",
) -> None:
    """Set an operator policy, which limits policies and queue arguments."""
    set_policy(call, name, pattern, definition, priority, apply_to, operator=True)


def clear_policy(call: Call, name: PolicyName, operator: Operator = False) -> None:
    """Remove a policy; this takes effect at once."""
    call.api.delete(_resource(operator), call.vhost, name)
    gone(call, _kind(operator), name, vhost=call.vhost)


def clear_operator_policy(call: Call, name: NewName) -> None:
    """Remove an operator policy."""
    clear_policy(call, name, operator=True)


def _resource(is_operator: bool) -> str:
    return "operator-policies" if is_operator else "policies"


def _kind(is_operator: bool) -> str:
    return "operator policy" if is_operator else "policy"


broker_command(group, "set")(set_policy)
broker_command(declare, "policy")(set_policy)
broker_command(declare, "operator-policy")(set_operator_policy)
broker_command(group, "clear")(clear_policy)
broker_command(delete, "policy")(clear_policy)
broker_command(delete, "operator-policy")(clear_operator_policy)
list_command(named("policies"), group, "list")


# Parameters

Component = Annotated[
    str, typer.Argument(metavar="COMPONENT", help="Component, such as federation-upstream.", show_default=False)
]
Value = Annotated[str, typer.Argument(metavar="VALUE", help="JSON; any other value is text.")]


@broker_command(declare, "parameter")
def set_parameter(call: Call, component: Component, name: NewName, value: Value) -> None:
    """Set a runtime parameter of a vhost."""
    body = {"component": component, "vhost": call.vhost, "name": name, "value": _value(value)}
    is_new = call.api.put("parameters", component, call.vhost, name, body=body)
    made(call, is_new, f"{component} parameter", name, "set", vhost=call.vhost)


@broker_command(delete, "parameter")
def clear_parameter(call: Call, component: Component, name: NewName) -> None:
    """Remove a runtime parameter."""
    call.api.delete("parameters", component, call.vhost, name)
    gone(call, f"{component} parameter", name, vhost=call.vhost)


@broker_command(declare, "global-parameter")
def set_global_parameter(call: Call, name: NewName, value: Value) -> None:
    """Set a parameter of the whole broker."""
    is_new = call.api.put("global-parameters", name, body={"name": name, "value": _value(value)})
    made(call, is_new, "global parameter", name, "set")


@broker_command(delete, "global-parameter")
def clear_global_parameter(call: Call, name: NewName) -> None:
    """Remove a parameter of the whole broker."""
    call.api.delete("global-parameters", name)
    gone(call, "global parameter", name)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

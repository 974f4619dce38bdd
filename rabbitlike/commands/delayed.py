"""`list delayed` and `cancel delayed`: delayed messages, which are routed later."""

from typing import Annotated

import typer

from rabbitlike.commands.api import DEFAULT_VHOST, Api, View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Refused

cancel = typer.Typer(help="Cancel delayed messages.", no_args_is_help=True)

#: The most messages that one answer holds.
PAGE = 500


def delayed(api: Api, vhost: str | None, _: list[str]) -> list[View]:
    """Return all delayed messages of a vhost, with as many requests as necessary."""
    views: list[View] = []
    query: dict[str, str | int] = {"page_size": PAGE}
    while True:
        answer = api.get("delayed", vhost or DEFAULT_VHOST, **query)
        views += answer["items"]
        if answer["next"] is None:
            return views
        query["after"] = answer["next"]


@broker_command(cancel, "delayed")
def cancel_delayed(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="ID", help="ID shown by `list delayed`, or a message-id.")],
) -> None:
    """Cancel a delayed message, or all of a message-id."""
    path = ("delayed", call.vhost, name)
    answer = call.api.ask("DELETE", path)
    if answer.status_code == 404:
        call.api.get("vhosts", call.vhost)
        raise Refused(f"no delayed message '{name}' is pending{call.in_vhost}")
    if not answer.is_success:
        raise call.api.refusal(answer, "DELETE", path)
    call.output.done(
        f"delayed message '{name}' cancelled{call.in_vhost}",
        kind="delayed",
        name=name,
        vhost=call.vhost,
        outcome="cancelled",
    )

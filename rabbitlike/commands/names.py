"""Names of objects as arguments; the shell completes them with names from the broker."""

from collections.abc import Callable
from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, Given
from rabbitlike.commands.faults import Fault

MOST: Final = 500


def _known(resource: str, *, in_vhost: bool = False) -> Callable[[typer.Context, str], list[str]]:
    """Return a completer for names that begin with the typed text. It reports no errors to the shell."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        given: View = {name: context.params.get(name) for name in ("url", "user", "password", "vhost", "cafile")}
        outer = context.parent.obj if context.parent is not None else None
        try:
            call = Call(Given(**given).over(outer if isinstance(outer, Given) else None))
            path = (resource, call.vhost) if in_vhost else (resource,)
            names = [str(view["name"]) for view in call.api.get_list(*path, columns="name")]
        except (Fault, OSError):
            return []
        return sorted(name for name in names if name.startswith(incomplete))[:MOST]

    return complete


QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", autocompletion=_known("queues", in_vhost=True), show_default=False)
]
ExchangeName = Annotated[
    str, typer.Argument(metavar="EXCHANGE", autocompletion=_known("exchanges", in_vhost=True), show_default=False)
]
PolicyName = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=_known("policies", in_vhost=True), show_default=False)
]
VhostName = Annotated[str, typer.Argument(metavar="VHOST", autocompletion=_known("vhosts"), show_default=False)]
UserName = Annotated[str, typer.Argument(metavar="USER", autocompletion=_known("users"), show_default=False)]
ConnectionName = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=_known("connections"), show_default=False)
]
NewName = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]

#: The same for names given as an option.
QUEUE_OPTION: Final = _known("queues", in_vhost=True)
EXCHANGE_OPTION: Final = _known("exchanges", in_vhost=True)

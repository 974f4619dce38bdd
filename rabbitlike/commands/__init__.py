"""The command line over the HTTP API: one module per group of commands.

Speaks to a broker as any operator's tool does and imports nothing of one; `rabbitlike.cli` adds these commands to its
own.
"""

import inspect
from collections.abc import Sequence
from typing import Final

import typer

from rabbitlike.commands import (
    accounts,
    browsing,
    call,
    dead_letters,
    declaring,
    definitions,
    delayed,
    getting,
    listing,
    local,
    logs,
    policies,
    publishing,
    queues,
    showing,
    status,
    tailing,
    top,
    tracing,
)
from rabbitlike.commands.faults import Fault

__all__ = ["Fault", "add_commands"]

#: Headings of the help page.
THINGS: Final = "What there is"
MESSAGES: Final = "Messages"
RIGHTS: Final = "Users and rules"
HEALTH: Final = "How it is doing"


def add_commands(root: typer.Typer, options: Sequence[inspect.Parameter]) -> None:
    """Give the root all commands of this package, and the options that may stand before any of them."""
    call.add_shared_options(root, options)
    groups = (
        ("list", listing.group, THINGS),
        ("show", showing.group, THINGS),
        ("declare", declaring.declare, THINGS),
        ("delete", declaring.delete, THINGS),
        ("purge", queues.purge, THINGS),
        ("connections", queues.connections, THINGS),
        ("cancel", delayed.cancel, MESSAGES),
        ("tail", tailing.group, MESSAGES),
        ("dlq", dead_letters.group, MESSAGES),
        ("trace", tracing.group, MESSAGES),
        ("users", accounts.users, RIGHTS),
        ("permissions", accounts.permissions, RIGHTS),
        ("policies", policies.group, RIGHTS),
        ("definitions", definitions.group, RIGHTS),
    )
    for name, group, panel in groups:
        call.add_shared_options(group)
        root.add_typer(group, name=name, rich_help_panel=panel)
    declaring.add_commands(root, THINGS)
    queues.add_commands(root, THINGS)
    publishing.add_commands(root, MESSAGES)
    getting.add_commands(root, MESSAGES)
    browsing.add_commands(root, MESSAGES)
    status.add_commands(root, HEALTH)
    top.add_commands(root, HEALTH)
    logs.add_commands(root, HEALTH)
    local.add_commands(root, RIGHTS)

"""The command line over the HTTP API: one module per group of commands.

It talks to a broker only over HTTP and imports no broker module; `rabbitlike.cli` adds these commands to its own. A
command is imported and built only when it is called: building all of them takes longer than most commands run.
"""

import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import typer

from rabbitlike.commands.call import add_shared_options
from rabbitlike.commands.faults import Fault

__all__ = ["NAMES", "Fault", "add_commands"]

#: Headings of the help page.
THINGS: Final = "What there is"
MESSAGES: Final = "Messages"
RIGHTS: Final = "Users and rules"
HEALTH: Final = "How it is doing"

MODULES: Final = (
    *("accounts", "browsing", "dead_letters", "declaring", "definitions", "delayed", "getting", "listing", "local"),
    *("logs", "policies", "publishing", "queues", "showing", "status", "tailing", "top", "tracing"),
)
#: Groups: name, the module and attribute that define the group, heading.
GROUPS: Final = (
    ("list", "listing", "group", THINGS),
    ("show", "showing", "group", THINGS),
    ("declare", "declaring", "declare", THINGS),
    ("delete", "declaring", "delete", THINGS),
    ("purge", "queues", "purge", THINGS),
    ("connections", "queues", "connections", THINGS),
    ("cancel", "delayed", "cancel", MESSAGES),
    ("tail", "tailing", "group", MESSAGES),
    ("dlq", "dead_letters", "group", MESSAGES),
    ("trace", "tracing", "group", MESSAGES),
    ("users", "accounts", "users", RIGHTS),
    ("permissions", "accounts", "permissions", RIGHTS),
    ("policies", "policies", "group", RIGHTS),
    ("definitions", "definitions", "group", RIGHTS),
)
#: Groups to which several modules add commands.
SHARED: Final = ("list", "show", "declare", "delete")
#: Commands outside groups, by the module whose `add_commands` creates them.
SINGLE: Final = (
    ("declaring", ("bind", "unbind"), THINGS),
    ("queues", ("pause", "resume"), THINGS),
    ("publishing", ("publish",), MESSAGES),
    ("getting", ("get",), MESSAGES),
    ("browsing", ("peek", "move"), MESSAGES),
    ("status", ("status", "health", "whoami"), HEALTH),
    ("top", ("top",), HEALTH),
    ("logs", ("logs",), HEALTH),
    ("local", ("hash-password", "completion"), RIGHTS),
)
NAMES: Final = frozenset([name for name, *_ in GROUPS] + [name for _, names, _ in SINGLE for name in names])


def add_commands(root: typer.Typer, options: Sequence[inspect.Parameter], only: str | None = None) -> None:
    """Add all commands of this package to the root, or only `only`.

    `options` are the shared options that may precede any command.
    """
    add_shared_options(root, options)
    if only is None or only in SHARED:
        for module in MODULES:
            import_module(f"{__name__}.{module}")
    for name, module, attribute, panel in GROUPS:
        if only in (None, name):
            group = getattr(import_module(f"{__name__}.{module}"), attribute)
            add_shared_options(group)
            root.add_typer(group, name=name, rich_help_panel=panel)
    for module, names, panel in SINGLE:
        if only is None or only in names:
            import_module(f"{__name__}.{module}").add_commands(root, panel)

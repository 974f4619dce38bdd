"""Context of one command: the broker, the login and the output. Commands take a Call and read nothing else.

`broker_command` adds the shared options to a command; they may also precede it, after the root or its group. The option
nearest to the command wins, then the environment, then the default. Typer could read the environment too, but would
prefer it to an option that precedes the command.
"""

import inspect
import os
import sys
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Final

import typer

from rabbitlike.commands.api import DEFAULT_URL, DEFAULT_VHOST, Address, Api, split_url
from rabbitlike.commands.faults import Fault
from rabbitlike.commands.output import Output

PREFIX: Final = "RABBITLIKE_"
PANEL: Final = "Broker and output"


@dataclass(slots=True)
class Given:
    """The shared options as given so far; None means not given."""

    url: Annotated[
        str | None,
        typer.Option("--url", help=f"URL of the HTTP API. (RABBITLIKE_URL, {DEFAULT_URL})", metavar="URL"),
    ] = None
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="User name. (RABBITLIKE_USER, guest)", metavar="NAME")
    ] = None
    password: Annotated[
        str | None,
        typer.Option("--password", "-p", help="Password. (RABBITLIKE_PASSWORD)", metavar="TEXT"),
    ] = None
    vhost: Annotated[
        str | None,
        typer.Option("--vhost", "-V", help="Virtual host. (RABBITLIKE_VHOST, /)", metavar="NAME"),
    ] = None
    cafile: Annotated[
        str | None,
        typer.Option("--cafile", help="Certificate authorities for https. (RABBITLIKE_CAFILE)", metavar="PATH"),
    ] = None
    json: Annotated[bool | None, typer.Option("--json", help="Print JSON.")] = None

    def over(self, outer: "Given | None") -> "Given":
        """Return these options, completed from `outer` where they are not given."""
        if outer is None:
            return self
        values = {}
        for each in fields(self):
            value = getattr(self, each.name)
            values[each.name] = getattr(outer, each.name) if value is None else value
        return Given(**values)

    def get(self, name: str) -> str | None:
        value: str | None = getattr(self, name)
        return value if value is not None else os.environ.get(PREFIX + name.upper()) or None


NAMES: Final = tuple(each.name for each in fields(Given))


class Call:
    """The context that a command works with."""

    def __init__(self, given: Given, output: Output | None = None) -> None:
        self._given = given
        self.output = output or Output(as_json=bool(given.json))

    @cached_property
    def api(self) -> Api:
        return Api(self._address())

    @property
    def vhost(self) -> str:
        """The vhost to work in."""
        return self.asked_vhost or DEFAULT_VHOST

    @property
    def asked_vhost(self) -> str | None:
        """The vhost given as an option or in the environment; None means all vhosts, in lists."""
        return self._given.get("vhost")

    @property
    def in_vhost(self) -> str:
        """` in vhost '…'` for messages, empty for the default vhost."""
        return "" if self.vhost == DEFAULT_VHOST else f" in vhost '{self.vhost}'"

    def _address(self) -> Address:
        url, user, password = split_url(self._given.get("url") or DEFAULT_URL)
        user = self._given.get("user") or user or "guest"
        password = self._given.get("password") or password
        if password is None:
            password = "guest" if user == "guest" else ask_password(f"Password of {user}", "give --password")
        return Address(url, user, password, self._given.get("cafile"))

    def close(self) -> None:
        if "api" in self.__dict__:
            self.api.close()


def ask_password(prompt: str, otherwise: str) -> str:
    """Prompt for a password; raise Fault if standard input is not a terminal."""
    if not sys.stdin.isatty():
        raise Fault(f"{prompt[0].lower()}{prompt[1:]} is not known: {otherwise}")
    return str(typer.prompt(prompt, hide_input=True, err=True))


Body = Callable[..., int | None]


def broker_command(
    group: typer.Typer, name: str, *, panel: str | None = None, hidden: bool = False
) -> Callable[[Body], Body]:
    """Turn `body(call, …)` into a command; the other parameters become its arguments and options."""

    def make(body: Body) -> Body:
        def run(context: typer.Context, **given: Any) -> int:
            shared = Given(**{each: given.pop(each) for each in NAMES}).over(context.obj)
            call = Call(shared)
            try:
                return body(call, **given) or 0
            finally:
                call.close()

        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        _declare(run, [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own])
        group.command(name, help=inspect.getdoc(body), rich_help_panel=panel, hidden=hidden)(run)
        return body

    return make


def add_shared_options(group: typer.Typer, own: Sequence[inspect.Parameter] = ()) -> None:
    """Allow the shared options before the group's commands too; `own` are eager options of the group."""

    def root(context: typer.Context, **given: Any) -> None:
        context.obj = Given(**{each: given[each] for each in NAMES}).over(context.obj)

    _declare(root, list(own))
    group.callback()(root)


def _declare(function: Callable[..., object], own: list[inspect.Parameter]) -> None:
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *own, *shared_parameters(_spellings(own))]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}


def _spellings(own: Sequence[inspect.Parameter]) -> set[str]:
    """Return all spellings of a command's own options."""
    infos = [info for each in own for info in getattr(each.annotation, "__metadata__", ())]
    return {spelling for info in infos for spelling in _of(info)}


def _of(info: Any) -> tuple[str, ...]:
    """Return the spellings of an option; within Annotated, `default` holds the first one."""
    first = (info.default,) if isinstance(info.default, str) else ()
    return (*first, *(info.param_decls or ()))


def shared_parameters(taken: Collection[str] = ()) -> list[inspect.Parameter]:
    """Return the fields of Given as parameters that Typer reads.

    If a command uses the name for an option of its own, the shared option becomes `--login-…`: `users add` has
    `--password` for the new user's password.
    """
    made = []
    for each in fields(Given):
        kind, info = each.type.__origin__, copy(each.type.__metadata__[0])  # type: ignore[union-attr]
        info.rich_help_panel = PANEL
        info.default, *info.param_decls = (
            f"--login-{spelling[2:]}" if spelling in taken else spelling for spelling in _of(info)
        )
        annotation = Annotated[kind, info]  # type: ignore[valid-type]
        made.append(inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    return made

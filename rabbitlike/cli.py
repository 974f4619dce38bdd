"""The command line. Flags are made from the options in config.py; nothing is declared here a second time.

Whatever a user can get wrong ends in one line on stderr and exit code 2. A plain `serve --port 5672` is read without
Typer, whose import would delay the start; everything else (help, mistakes, other spellings) goes to Typer.
"""

import inspect
import sys
from collections.abc import Sequence
from dataclasses import Field
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

from rabbitlike import __version__
from rabbitlike.config import DEFAULTS, OPTIONS, ConfigError, Given, load

if TYPE_CHECKING:
    import typer

FAULT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = _plain_flags(words)
    return _serve(given) if given is not None else _run_typer(words)


def _serve(given: Given) -> int:
    try:
        settings = load(given)
    except ConfigError as error:
        return _fault(str(error))
    from rabbitlike.app import START_FAULTS, run

    try:
        return run(settings)
    except START_FAULTS as error:
        return _fault(str(error))


def _fault(text: str) -> int:
    sys.stderr.write(f"rabbitlike: {text}\n")
    return FAULT


def _plain_flags(words: list[str]) -> dict[str, str | list[str] | bool] | None:
    """What `serve --name value --switch` gives; None when the words are anything else."""
    if words[:1] != ["serve"]:
        return None
    given: dict[str, str | list[str] | bool] = {}
    rest = iter(words[1:])
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        if f"--{name.replace('_', '-')}" != word or name not in OPTIONS or name in given:
            return None
        if OPTIONS[name].type is bool:
            given[name] = True
            continue
        value = next(rest, "-")
        if value.startswith("-") or get_origin(OPTIONS[name].type) is tuple:
            return None
        given[name] = value
    return given


def _run_typer(words: list[str]) -> int:
    import typer

    # Click's UsageError by way of what Typer exports: newer Typers bring their own Click.
    usage_error = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
    command = typer.main.get_command(_commands())
    try:
        result = command.main(words, "rabbitlike", standalone_mode=False)
    except usage_error as error:
        return _fault(" ".join([*error.format_message().split(), "Try 'rabbitlike serve --help'."]))
    return int(result or 0)


def _commands() -> "typer.Typer":
    import typer

    def tell_version(asked: bool) -> None:
        if asked:
            typer.echo(f"rabbitlike {__version__}")
            raise typer.Exit

    version = typer.Option(False, "--version", help="Say the version and stop.", is_eager=True, callback=tell_version)

    def root(version: bool = version) -> None:
        pass

    def serve(**given: str | list[str] | bool | None) -> int:
        return _serve({name: value for name, value in given.items() if value is not None and value != []})

    flags = [_flag(each) for each in OPTIONS.values()]
    serve.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    serve.__annotations__ = {flag.name: flag.annotation for flag in flags}
    commands = typer.Typer(
        add_completion=False,
        help="An AMQP 0-9-1 broker that any stock client takes for RabbitMQ.",
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    commands.callback()(root)
    commands.command("serve", help="Run the broker until SIGTERM or Ctrl-C.")(serve)
    return commands


def _flag(each: "Field[Any]") -> inspect.Parameter:
    """Values stay text here: config.py judges them, whatever way they came."""
    import typer

    spelt = f"--{each.name.replace('_', '-')}"
    if each.type is bool:
        kind: object = bool | None
        option = typer.Option(None, f"{spelt}/--no-{spelt[2:]}", help=_help(each))
    elif get_origin(each.type) is tuple:
        kind = list[str] | None
        option = typer.Option(None, spelt, help=_help(each), metavar="TEXT")
    else:
        kind = str | None
        option = typer.Option(None, spelt, help=_help(each), metavar=_metavar(each))
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def _help(each: "Field[Any]") -> str:
    default = getattr(DEFAULTS, each.name)
    if isinstance(default, bool):
        default = "yes" if default else "no"
    elif isinstance(default, tuple):
        default = ",".join(default) or None
    return f"{each.metadata['help']} [{'none' if default is None else default}]"


def _metavar(each: "Field[Any]") -> str:
    kinds = get_args(each.type) or (each.type,)
    if get_origin(each.type) is not None and all(isinstance(kind, str) for kind in kinds):
        return "|".join(kinds)
    return "NUMBER" if int in kinds else "TEXT" if str in kinds else "PATH"


if __name__ == "__main__":
    sys.exit(main())

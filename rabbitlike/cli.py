"""The command line. The flags of `serve` are generated from the options in config.py.

User errors print one line on stderr and exit with code 2; code 1 means that the broker refused, or that `check` found
damage. A plain `serve --port 5672` is parsed without Typer, because importing it would delay the start; Typer handles
everything else (help, mistakes, other spellings, other commands). Commands that call a running broker are in commands/.
"""

import inspect
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

from rabbitlike import __version__
from rabbitlike.config import DEFAULTS, OPTIONS, ConfigError, Given, load

if TYPE_CHECKING:
    import typer
    import typer.core

    from rabbitlike.storage.check import Report

DAMAGE, FAULT = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    given = _plain_flags(words)
    return _serve(given) if given is not None else _run_typer(words)


def _serve(given: Given) -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # SIGHUP means "reload", and there is nothing to reload yet
    try:
        settings = load(given)
    except ConfigError as error:
        return _fault(str(error))
    from rabbitlike.app import START_FAULTS, run

    try:
        return run(settings, partial(load, given))
    except START_FAULTS as error:
        return _fault(str(error))


def _fault(text: str, code: int = FAULT) -> int:
    sys.stderr.write(f"rabbitlike: {text}\n")
    return code


def _check(given: Given) -> int:
    from rabbitlike.storage.api import StorageError
    from rabbitlike.storage.check import check

    try:
        report = check(load(given).data_dir)
    except (ConfigError, StorageError) as error:
        return _fault(str(error))
    for line in _told(report):
        sys.stdout.write(f"{line}\n")
    return 0 if report.is_sound else DAMAGE


def _told(report: "Report") -> list[str]:
    """The report as lines: what is wrong, what the database holds, what to do."""
    found = (
        f"schema {report.version}, {report.messages:,} messages in {report.batches:,} batches of {report.queues:,} "
        f"queues, {_size(report.file_bytes)}"
    )
    if report.is_sound:
        return [f"{report.path} is sound: {found}"]
    return [
        # SQLite reports several problems at a time, under a heading.
        *(
            f"damage: {line}"
            for problem in report.problems
            for line in problem.splitlines()
            if not line.startswith("***")
        ),
        f"{report.path} is damaged: {found}",
        f"next: copy {report.path.parent} to a safe place, then put a backup in its place (a copy that `rabbitlike "
        f"backup` made); without one, {report.remedy}",
    ]


def _back_up(destination: Path, given: Given) -> int:
    from rabbitlike.storage.api import StorageError
    from rabbitlike.storage.backup import backup

    try:
        folder = load(given).data_dir
        octets = backup(folder, destination)
    except (ConfigError, StorageError) as error:
        return _fault(str(error))
    sys.stdout.write(f"{folder} is copied to {destination} ({_size(octets)}): serve from it with --data-dir\n")
    return 0


def _size(octets: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if octets < 1024:
            return f"{octets:.0f} {unit}"
        octets /= 1024
    return f"{octets:.1f} GiB"


def _plain_flags(words: list[str]) -> dict[str, str | list[str] | bool] | None:
    """The options in `serve --name value --switch`; None for any other command line."""
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

    from rabbitlike.commands import NAMES, Fault

    try:
        only = words[0] if words and words[0] in NAMES else None
        result = _command(only).main(words, "rabbitlike", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        asked = context.command_path if context is not None else "rabbitlike"
        return _fault(" ".join([*error.format_message().split(), f"Try '{asked} --help'."]))
    except Fault as error:
        return _fault(str(error), error.code)
    except typer.Abort:
        return _fault("stopped")
    return int(result or 0)


@cache
def _command(only: str | None = None) -> "typer.core.TyperGroup":
    """All commands, or only the one of this name that calls a broker; cached."""
    from typer.core import TyperCommand, TyperGroup
    from typer.main import get_command

    command = cast(TyperGroup, get_command(_commands(only)))
    if only is not None:
        return command
    # Many options read better in plain columns, and defaults in brackets are not markup.
    for name in ("serve", "check", "backup"):
        cast(TyperCommand, command.commands[name]).rich_markup_mode = None
    return command


def _commands(only: str | None) -> "typer.Typer":
    import typer

    from rabbitlike import commands as asking

    def tell_version(asked: bool) -> None:
        if asked:
            typer.echo(f"rabbitlike {__version__}")
            raise typer.Exit

    option = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True, callback=tell_version)
    version = inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=option, annotation=bool)

    commands = typer.Typer(
        help="An AMQP 0-9-1 message broker compatible with RabbitMQ.",
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,  # boxes are for people, plain lines for grep
    )
    if only is None:
        _add_own(commands)
    asking.add_commands(commands, [version], only)
    return commands


def _add_own(commands: "typer.Typer") -> None:
    """Add the commands that do not call a broker."""
    import typer

    def serve(**given: str | list[str] | bool | None) -> int:
        return _serve(_given(given))

    def check(**given: str | list[str] | bool | None) -> int:
        return _check(_given(given))

    def backup(destination: str, **given: str | list[str] | bool | None) -> int:
        return _back_up(Path(destination), _given(given))

    argument = typer.Argument(metavar="DEST", help="Directory to copy to; it is created.", show_default=False)
    where = inspect.Parameter("destination", inspect.Parameter.KEYWORD_ONLY, default=argument, annotation=str)
    flags = [_flag(each) for each in OPTIONS.values()]
    of_data = [_flag(OPTIONS[name]) for name in ("data_dir", "config")]
    _declare(serve, flags)
    _declare(check, of_data)
    _declare(backup, [where, *of_data])
    commands.command("serve", help="Run the broker until SIGTERM or Ctrl-C.")(serve)
    commands.command("check", help="Check the data of a stopped broker for damage.")(check)
    commands.command("backup", help="Back up the data, also of a running broker.")(backup)


def _declare(command: Callable[..., int], parameters: list[inspect.Parameter]) -> None:
    """Give a function the signature from which Typer makes a command."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}


def _given(flags: Mapping[str, str | list[str] | bool | None]) -> dict[str, str | list[str] | bool]:
    return {name: value for name, value in flags.items() if value is not None and value != []}


def _flag(each: "Field[Any]") -> inspect.Parameter:
    """The flag of an option. Values stay text here: config.py validates them, whatever their source."""
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

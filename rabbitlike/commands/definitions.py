"""`definitions`: export all declared objects to a JSON file, or import them from one."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Final

import typer

from rabbitlike.commands.api import View
from rabbitlike.commands.call import Call, broker_command
from rabbitlike.commands.faults import Fault
from rabbitlike.commands.progress import Advance, counting
from rabbitlike.commands.values import read_file

group = typer.Typer(help="Export and import definitions.", no_args_is_help=True)

KINDS: Final = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)
LOT: Final = 65_536


@broker_command(group, "export")
def export(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="File to write; default, or -: standard output.")] = "-",
) -> None:
    """Write all definitions to a file; with --vhost, those of one virtual host."""
    path = ("definitions",) if call.asked_vhost is None else ("definitions", call.asked_vhost)
    with call.api.stream("GET", path) as answer:
        length = answer.headers.get("content-length")
        with counting("exporting", int(length) if length else None, in_octets=True) as moved:
            octets = b"".join(_told(answer.iter_bytes(LOT), moved))
    definitions: View = _read(octets, call.api.address.url)
    text = json.dumps(definitions, indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        call.output.write(text)
        return
    try:
        with open(file, "w", encoding="utf-8", opener=_private) as written:
            written.write(text)
    except OSError as error:
        raise Fault(f"cannot write {file}: {error.strerror}") from None
    call.output.done(f"{file}: {_summary(definitions)}", file=file, **_counts(definitions))


def _private(path: str, flags: int) -> int:
    """Open a file with mode 600 whatever the umask, because it contains password hashes. Devices keep their mode."""
    handle = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        with suppress(PermissionError):  # the file belongs to another user
            os.fchmod(handle, 0o600)
    return handle


@broker_command(group, "import")
def load(
    call: Call,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to read; - is standard input.", show_default=False)],
    strict: Annotated[bool, typer.Option("--strict", help="Import nothing if an entry is unsupported.")] = False,
) -> None:
    """Import definitions from a file; with --vhost, into that virtual host. Existing queues and exchanges stay."""
    octets = read_file(file)
    definitions = _read(octets, file)
    path = ("definitions",) if call.asked_vhost is None else ("definitions", call.asked_vhost)
    with counting("importing", len(octets), in_octets=True) as moved:
        lots = (octets[at : at + LOT] for at in range(0, len(octets), LOT))
        query = {"strict": "true"} if strict else None
        with call.api.stream("POST", path, content=_told(lots, moved), length=len(octets), query=query) as answer:
            skipped = int(answer.headers.get("x-skipped-entries", "0"))
    said = f"imported {_summary(definitions)}"
    if skipped:
        said += f"; {skipped:,} entries skipped because they are not supported (see the broker's log)"
    call.output.done(said, outcome="imported", **_counts(definitions), skipped=skipped)


def _told(lots: Iterator[bytes], moved: Advance) -> Iterator[bytes]:
    for lot in lots:
        yield lot
        moved(len(lot))


def _read(octets: bytes, source: str) -> View:
    try:
        found = json.loads(octets)
    except ValueError as error:
        raise Fault(f"{source} holds no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Fault(f"{source} holds no definitions: they are a JSON object")
    return found


def _counts(definitions: View) -> dict[str, int]:
    return {kind: len(definitions[kind]) for kind in KINDS if definitions.get(kind)}


def _summary(definitions: View) -> str:
    counts = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in _counts(definitions).items()]
    return ", ".join(counts) or "nothing"

"""Parse typed values: `name=value` pairs, JSON objects, file names. An unreadable value is a usage error."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rabbitlike.commands.faults import Fault

Argument = Annotated[
    list[str] | None,
    typer.Option(
        "--argument", "-a", help="An argument, such as x-max-length=10; can be repeated.", metavar="KEY=VALUE"
    ),
]
Arguments = Annotated[str | None, typer.Option("--arguments", help="Arguments as a JSON object.", metavar="JSON")]


def pairs(texts: list[str] | None, option: str) -> dict[str, Any]:
    """Parse `key=value` texts into an object; values are JSON if they parse as JSON, otherwise text."""
    found: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Fault(f"{option} '{text}': write it as KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """Parse a JSON object."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Fault(f"{option} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Fault(f'{option} must be a JSON object such as {{"key": "value"}}')
    return found


def arguments_of(each: list[str] | None, whole: str | None) -> dict[str, Any]:
    return {**json_object(whole, "--arguments"), **pairs(each, "--argument")}


def read_file(name: str) -> bytes:
    """Read a file's octets; `-` is standard input."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Fault(f"cannot read {name}: {error.strerror}") from None


def names_in(text: str) -> list[str]:
    """Split a text at commas."""
    return [part for part in (each.strip() for each in text.split(",")) if part]

"""Values as they are typed: `name=value` pairs, JSON objects, names of files. What cannot be read is a usage error."""

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
    """`key=value` texts as an object; a value that reads as JSON is what it says, any other is text."""
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
    """A JSON object."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Fault(f"{option} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Fault(f'{option} is to be a JSON object, as {{"key": "value"}}')
    return found


def arguments_of(each: list[str] | None, whole: str | None) -> dict[str, Any]:
    return {**json_object(whole, "--arguments"), **pairs(each, "--argument")}


def read_file(name: str) -> bytes:
    """A file's octets; `-` is standard input."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Fault(f"cannot read {name}: {error.strerror}") from None


def names_in(text: str) -> list[str]:
    """The parts of a text with commas."""
    return [part for part in (each.strip() for each in text.split(",")) if part]

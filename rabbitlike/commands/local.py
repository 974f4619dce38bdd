"""Commands that do not need a broker: `hash-password` and `completion`."""

import base64
import enum
import hashlib
import os
from typing import Annotated, Final

import typer

from rabbitlike.commands.call import ask_password


class Algorithm(enum.StrEnum):
    """parity: RabbitMQ's password hashes; definitions call them rabbit_password_hashing_…"""

    SHA256 = "sha256"
    SHA512 = "sha512"


class Shell(enum.StrEnum):
    """Shells that Typer supports."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


SALT_OCTETS: Final = 4


def hash_password(
    password: Annotated[
        str | None,
        typer.Argument(metavar="[PASSWORD]", help="The command asks for it if it is not given.", show_default=False),
    ] = None,
    algorithm: Annotated[Algorithm, typer.Option("--algorithm", help="Hash algorithm.")] = Algorithm.SHA256,
) -> None:
    """Hash a password for a definitions file or `users add --password-hash`."""
    chosen = password or ask_password("Password", "give it behind the command")
    # parity: a salt of four octets before the digest of salt and password
    salt = os.urandom(SALT_OCTETS)
    digest = hashlib.new(algorithm.value, salt + chosen.encode()).digest()
    typer.echo(base64.b64encode(salt + digest).decode())


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(help="Shell.", show_default=False)]
) -> None:
    """Print the completion script of a shell, for commands, options and the names of queues, exchanges and users.

    For bash: rabbitlike completion bash > ~/.local/share/bash-completion/completions/rabbitlike
    """
    from typer.completion import shell_complete

    root = context.find_root().command
    shell_complete(root, {}, "rabbitlike", "_RABBITLIKE_COMPLETE", f"source_{shell.value}")


def add_commands(root: typer.Typer, panel: str) -> None:
    root.command("hash-password", rich_help_panel=panel)(hash_password)
    root.command("completion", rich_help_panel=panel)(completion)

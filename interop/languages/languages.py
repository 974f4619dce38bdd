"""The languages: what each needs, how its program is made ready and run, and what its client cannot do."""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
BUILD: Final = HERE.parent.parent / "build" / "languages"

Command = tuple[str, ...]


class Missing(Exception):
    """What a language needs is not on this machine."""


@dataclass(frozen=True, slots=True)
class Language:
    """A folder beside this file, of the same name, with one program."""

    name: str
    client: str
    needs: str  # in words: what is to be installed
    probe: Command  # succeeds where that is so
    run: Command  # in a copy of the folder; host, port and the checks follow
    fetch: tuple[Command, ...] = ()  # gets the client, where it is no package of the system's
    compile: tuple[Command, ...] = ()
    cannot: Mapping[str, str] = field(default_factory=dict)  # checks its client has no means for, and why


# Debian's: jars in one folder, Go's sources in another.
JAVA_CLASSES: Final = (
    "-cp",
    ":".join((".", *(f"/usr/share/java/{jar}.jar" for jar in ("amqp-client", "slf4j-api", "slf4j-nop")))),
)
GO: Final = ("env", "GO111MODULE=off", "GOPATH=/usr/share/gocode", "go")

LANGUAGES: Final = (
    Language(
        name="node",
        client="amqplib, amqp-connection-manager",
        needs="Node 18 or newer with npm",
        probe=("npm", "--version"),
        fetch=(("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"),),
        run=("node", "main.mjs"),
        cannot={"tx": "amqplib has no transactions"},
    ),
    Language(
        name="ruby",
        client="bunny",
        needs="Ruby with bunny (Debian's ruby-bunny)",
        probe=("ruby", "-e", "require 'bunny'"),
        run=("ruby", "main.rb"),
    ),
    Language(
        name="php",
        client="php-amqplib",
        needs="PHP 8 with php-amqplib (Debian's php-cli and php-amqplib)",
        probe=("php", "-r", "require 'PhpAmqpLib/autoload.php';"),
        run=("php", "-d", "display_errors=stderr", "main.php"),
        cannot={"small-frames": "php-amqplib takes the frames the server offers"},
    ),
    Language(
        name="java",
        client="RabbitMQ's own",
        needs="a JDK with RabbitMQ's client (Debian's openjdk-17-jdk-headless and librabbitmq-client-java)",
        probe=("javap", *JAVA_CLASSES, "com.rabbitmq.client.Connection"),
        compile=(("javac", *JAVA_CLASSES, "Main.java"),),
        run=("java", "-XX:TieredStopAtLevel=1", *JAVA_CLASSES, "Main"),  # it runs for seconds
    ),
    Language(
        name="go",
        client="amqp091-go, and its own tests",
        needs="Go with amqp091-go (Debian's golang-go and golang-github-rabbitmq-amqp091-go-dev)",
        probe=(*GO, "list", "github.com/rabbitmq/amqp091-go"),
        compile=((*GO, "build", "-o", "main", "main.go"),),
        run=("./main",),
    ),
)


def workshop(language: Language) -> Path:
    """A copy of the language's folder with all it takes to run the program, made anew when the folder changes."""
    if not _succeeds(language.probe):
        raise Missing(language.needs)
    source, folder = HERE / language.name, BUILD / language.name
    stamp = folder / ".stamp"
    made_of = _digest(source, repr(language))
    if not stamp.exists() or stamp.read_text() != made_of:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        for command in language.fetch:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Missing(f"what `{' '.join(command)}` fetches: {done.stderr.strip()}")
        for command in language.compile:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"`{' '.join(command)}`: {done.stdout}{done.stderr}"
        stamp.write_text(made_of)
    return folder


def _succeeds(command: Command) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _digest(folder: Path, *more: str) -> str:
    digest = hashlib.sha256("\0".join(more).encode())
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            digest.update(f"\0{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()

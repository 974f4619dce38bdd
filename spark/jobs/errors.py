"""Failures as one sentence that helps the user, instead of Spark's hundred lines."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from rabbitlike.spark.java import NoJava
from rabbitlike.spark.jobs.inputs import NoEvents
from rabbitlike.spark.jobs.session import NoSpark
from rabbitlike.spark.options import OptionError

#: These loggers write whole Java stack traces as one line.
_LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def told(console: Console, verbose: bool) -> Iterator[None]:
    """End the program with a one-sentence error; `verbose` raises the original exception."""
    if not verbose:
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        console.print("stopped")
        raise typer.Exit(130) from None
    except (NoEvents, NoJava, NoSpark, OptionError, ValueError) as error:
        if verbose:
            raise
        _say(console, str(error))
        raise typer.Exit(2) from None
    except Exception as error:
        if verbose:
            raise
        _say(console, shortened(error))
        console.print("--verbose shows where it happened.", style="dim")
        raise typer.Exit(1) from None


def _say(console: Console, text: str) -> None:
    console.print(Text("error: ", style="bold red") + Text(text))


def shortened(error: BaseException) -> str:
    """Return the relevant line: for a failed task, the last one from our own Python exceptions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if re.match(r"(rabbitlike\.)[\w.]+: ", line)]
    if ours:
        return ours[-1].partition(": ")[2]
    return lines[0] if lines else type(error).__name__

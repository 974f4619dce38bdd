"""The conversations, a file for each part of the protocol."""

from importlib import import_module
from pathlib import Path


def read() -> None:
    """Import all files, which register their conversations."""
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        import_module(f"interop.parity.corpus.{file.stem}")

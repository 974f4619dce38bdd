"""Columns of packed rows, as whoever packs them hands them to whoever writes them: no row is an object."""

from collections.abc import Sequence
from typing import NamedTuple


class Numbers(NamedTuple):
    """Whole numbers, each times `scale`; those below `none_below` are missing."""

    values: range | memoryview
    scale: int = 1
    none_below: int | None = None


class Codes(NamedTuple):
    """Words, by their number; no numbers: all are the first."""

    codes: memoryview | None
    words: Sequence[str | None]


class Texts(NamedTuple):
    """Texts in one run of octets, and where each ends; the empty ones are missing."""

    ends: memoryview
    octets: bytearray


Column = Numbers | Codes | Texts


class Question(NamedTuple):
    """Which events are looked for; None asks for nothing."""

    vhost: str
    message_id: str | None = None
    queue: str | None = None
    event: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    #: The newest so many.
    limit: int = 1000

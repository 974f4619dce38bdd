"""Counts of successful and failed logins, by protocol and optionally by user and address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

AMQP: Final = "amqp091"
HTTP: Final = "http"

#: Clients choose user names and addresses: beyond this number the oldest entry is forgotten.
MOST_SOURCES: Final = 10_000


@dataclass(slots=True)
class LoginAttempt:
    """Counts of one protocol, or of one user name from one address."""

    protocol: str
    remote_address: str = ""
    username: str = ""
    succeeded: int = 0
    failed: int = 0


class LoginAttempts:
    """All attempts since the start or the last reset."""

    def __init__(self, *, tracks_sources: bool = False) -> None:
        self._tracks_sources = tracks_sources
        self._totals: dict[str, LoginAttempt] = {}
        self._sources: dict[tuple[str, str, str], LoginAttempt] = {}

    def count(self, protocol: str, address: str, username: str, *, succeeded: bool) -> None:
        total = self._totals.get(protocol)
        if total is None:
            total = self._totals[protocol] = LoginAttempt(protocol)
        self._add(total, succeeded)
        if not self._tracks_sources:
            return
        key = (protocol, address, username)
        if key not in self._sources and len(self._sources) >= MOST_SOURCES:
            del self._sources[next(iter(self._sources))]
        self._add(self._sources.setdefault(key, LoginAttempt(*key)), succeeded)

    @staticmethod
    def _add(attempt: LoginAttempt, succeeded: bool) -> None:
        if succeeded:
            attempt.succeeded += 1
        else:
            attempt.failed += 1

    def totals(self) -> Iterator[LoginAttempt]:
        return iter(self._totals.values())

    def sources(self) -> Iterator[LoginAttempt]:
        return iter(self._sources.values())

    def reset(self) -> None:
        self._totals.clear()
        self._sources.clear()

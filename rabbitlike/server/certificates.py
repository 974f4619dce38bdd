"""TLS certificates of all listeners, which can be reloaded while the broker runs.

A new context is made from the files and replaces the old one as a whole, for new connections. If the files cannot be
used, the old one stays in force.
"""

import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rabbitlike.clock import Clock, Timer
from rabbitlike.config import ConfigError, Settings
from rabbitlike.server.tls import server_context

#: Interval of checks for changed files. A change is loaded at the second check that finds it, because certificate and
#: key are two files and may be half written at the first.
LOOK_MS: Final = 5000

log = logging.getLogger("rabbitlike.tls")


class Handshake(ssl.SSLObject):
    """Logs why a handshake fails; the loop, which knows the client's address, does not log it."""

    listener = ""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            log.warning("%s: TLS handshake with a client failed: %s", self.listener, _reason(error))
            raise


#: OpenSSL's errors for a client that does not speak TLS.
_PLAIN: Final = {
    "HTTP_REQUEST": "it sent HTTP in plain text; use https:// there",
    "WRONG_VERSION_NUMBER": "it sent plain text or a TLS that is too old; use amqps:// or https:// there",
}


def _reason(error: ssl.SSLError) -> str:
    return _PLAIN.get(error.reason or "", (error.reason or str(error)).replace("_", " ").lower())


class CurrentContext(ssl.SSLContext):
    """The context given to a listener; each new connection uses the context currently in force."""

    current: ssl.SSLContext
    listener: str

    def __new__(cls, *_: object) -> "CurrentContext":
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, current: ssl.SSLContext, listener: str) -> None:
        self.current = current
        self.listener = listener

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        found = self.current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(found, Handshake):
            found.listener = self.listener
        return found


class Certificates:
    """The TLS context of all listeners; reloads on request and when its files change."""

    def __init__(self, settings: Settings) -> None:
        """Load the files; raise ConfigError if one cannot be used."""
        self._current = _context(settings)
        self._settings = settings
        self._contexts: list[CurrentContext] = []
        self._loaded = self._seen = _stamps(settings)
        self._timer: Timer | None = None

    def context(self, listener: str) -> ssl.SSLContext:
        """The context for one listener, which the log refers to by this name."""
        self._contexts.append(CurrentContext(self._current, listener))
        return self._contexts[-1]

    def load(self, settings: Settings) -> bool:
        """Load the files that these settings name. False, with a log line, if they cannot be used."""
        self._loaded = _stamps(settings)
        try:
            self._current = _context(settings)
        except ConfigError as error:
            log.error("keeping the current TLS certificate: %s", error)
            return False
        self._settings = settings
        for context in self._contexts:
            context.current = self._current
        log.info("loaded the TLS certificate %s, for new connections", settings.tls_certfile)
        return True

    def watch(self, clock: Clock) -> Callable[[], None]:
        """Load the files whenever they change; return a function that stops this."""

        def look() -> None:
            self.look()
            self._timer = clock.call_later(LOOK_MS, look)

        def stop() -> None:
            if self._timer is not None:
                self._timer.cancel()

        self._timer = clock.call_later(LOOK_MS, look)
        return stop

    def look(self) -> None:
        """Load the files if they have changed, but not since the last check."""
        found = _stamps(self._settings)
        if found == self._seen and found != self._loaded:
            self.load(self._settings)
        self._seen = found


def _context(settings: Settings) -> ssl.SSLContext:
    context = server_context(settings)
    context.sslobject_class = Handshake
    return context


def _stamps(settings: Settings) -> list[tuple[int, ...]]:
    """Stamps that change when a file is replaced or rewritten."""
    return [_stamp(path) for path in (settings.tls_certfile, settings.tls_keyfile, settings.tls_cafile) if path]


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

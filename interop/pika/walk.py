"""pika's asynchronous adapters, driven in a straight line.

A walk is a generator that yields steps. A step is given a callback and begins something; what the callback is called
with comes back as the value of the yield. So one script runs on every adapter, and reads like the blocking ones. It
runs inside pika's loop: whatever happens meanwhile, happens.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel
from pika.connection import Connection

from interop.conftest import Address
from interop.patience import PATIENCE_S

Adapter = type[Connection]
ADAPTERS: dict[str, Adapter] = {"select": SelectConnection, "asyncio": AsyncioConnection}

Step = Callable[[Callable[..., None]], object]
Values = tuple[Any, ...]  # what a callback is called with differs from method to method
Walk = Generator[Step, Values, None]
Script = Callable[[Connection], Walk]


def open_channel(connection: Connection) -> Generator[Step, Values, Channel]:
    """A step of its own, because everybody takes it."""
    (channel,) = yield lambda done: connection.channel(on_open_callback=done)
    assert isinstance(channel, Channel)
    return channel


class Walker:
    """Takes one walk on one connection, from open to closed."""

    def __init__(self, adapter: Adapter, script: Script, parameters: pika.ConnectionParameters) -> None:
        self._script = script
        self._walk: Walk | None = None
        self._loop = asyncio.new_event_loop() if adapter is AsyncioConnection else None
        self._failure: BaseException | None = None
        self._closed_with: BaseException | None = None
        self._connection = adapter(
            parameters,
            on_open_callback=self._on_open,
            on_open_error_callback=self._on_closed,
            on_close_callback=self._on_closed,
            custom_ioloop=self._loop,
        )

    def run(self) -> BaseException:
        """Until the connection is closed; why it was. What the walk raised is raised here."""
        limit = self._connection._adapter_call_later(PATIENCE_S, self._give_up)
        if self._loop is None:
            self._connection.ioloop.start()
        else:
            self._loop.run_forever()
        self._connection._adapter_remove_timeout(limit)
        (self._loop or self._connection.ioloop).close()
        if self._failure is not None:
            raise self._failure
        assert self._closed_with is not None
        return self._closed_with

    def _on_open(self, connection: Connection) -> None:
        self._walk = self._script(connection)
        self._advance(None)

    def _advance(self, values: Values | None) -> None:
        """One step further; after the last one the connection is closed, unless it was closed meanwhile."""
        assert self._walk is not None
        try:
            step = self._walk.send(values)  # type: ignore[arg-type] # None: the first
            step(self._once())
        except StopIteration:
            self._close()
        except BaseException as error:
            self._failure = error
            self._close()

    def _once(self) -> Callable[..., None]:
        """A callback that leads on to the next step; consumers go on calling it, to no effect."""
        is_called = False

        def done(*values: object) -> None:
            nonlocal is_called
            if not is_called:
                is_called = True
                self._connection._adapter_call_later(0, lambda: self._advance(values))

        return done

    def _close(self) -> None:
        if self._connection.is_open:
            self._connection.close()

    def _give_up(self) -> None:
        self._failure = AssertionError(f"still walking after {PATIENCE_S} s")
        self._stop()

    def _on_closed(self, _: Connection, error: BaseException) -> None:
        self._closed_with = error
        self._stop()

    def _stop(self) -> None:
        (self._loop or self._connection.ioloop).stop()


def walk(adapter: Adapter, address: Address, script: Script, **parameters: object) -> BaseException:
    """Take this walk; the error the connection ended with, which is ConnectionClosedByClient when all is well."""
    return Walker(adapter, script, pika.ConnectionParameters(address.host, address.port, **parameters)).run()

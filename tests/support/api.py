"""The whole HTTP API over a broker in memory, without sockets, with AMQP clients of the same broker.

    async def test_purge(api: Api) -> None:              # fixture of tests/management/conftest.py
        ch = api.pair.connect().channel()                # an AMQP client, see tests.support.pair
        ch.declare("q")
        assert (await api.get("/api/queues/%2F/q")).json()["name"] == "q"
        bob = api.user("bob", tags=["management"])       # the same API as another user
        assert (await bob.get("/api/nodes")).status_code == 401

Time stands still: `api.pair.advance(ms)`.
"""

from __future__ import annotations

from collections.abc import Iterable

import httpx
from fastapi import FastAPI

from rabbitlike.config import Settings
from rabbitlike.management.api import create_api
from rabbitlike.management.context import Context
from tests.support.pair import Pair


class Api(httpx.AsyncClient):
    """An HTTP client with one user's login, by default that of guest."""

    def __init__(
        self, pair: Pair, app: FastAPI, login: tuple[str, str] | None = ("guest", "guest"), host: str = "127.0.0.1"
    ) -> None:
        self.pair = pair
        self.app = app
        # An exception in a route becomes a 500 with a traceback in the log, as it does for users.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(host, 54321))
        super().__init__(transport=transport, base_url="http://broker", auth=login)

    def login(self, name: str, password: str, host: str = "127.0.0.1") -> Api:
        """Return the same API with another login, or from another address."""
        return Api(self.pair, self.app, (name, password), host)

    def stranger(self, host: str = "127.0.0.1") -> Api:
        """Return the same API without a login."""
        return Api(self.pair, self.app, None, host)

    def user(
        self,
        name: str,
        tags: Iterable[str] = ("management",),
        *,
        vhost: str | None = "/",
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> Api:
        """Return the API as a new user with these tags and permissions; the password is `pw`."""
        self.pair.add_user(name, "pw", vhost=vhost, configure=configure, write=write, read=read)
        self.pair.broker.users.set_tags(name, tags)
        return self.login(name, "pw")

    @property
    def context(self) -> Context:
        context: Context = self.app.state.context
        return context


def make_api(pair: Pair | None = None, **options: object) -> Api:
    """Return the API over a broker in memory; `options` are those of Settings that the management reads."""
    pair = pair or Pair()
    settings = Settings(**options)  # type: ignore[arg-type]
    context = Context(pair.broker, settings, started_at_ms=pair.clock.now_ms())
    return Api(pair, create_api(context))

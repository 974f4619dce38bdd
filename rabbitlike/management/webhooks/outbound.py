"""Sends webhooks over connections to checked addresses. Imported when the first one is sent.

Each connection looks its host name up once and uses an address of that checked result: a second lookup might return
another address (DNS rebinding). The Host header, SNI and certificate check use the name. Redirects are not followed,
and no proxy is used.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import httpcore
import httpx

from rabbitlike.management.webhooks.targets import AllowedTargets

#: Exceptions that sending may raise.
FAULTS = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
    ValueError,
)


#: Returns the addresses of a host.
LookUp = Callable[[str, int], Awaitable[list[str]]]


async def look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to allowed addresses only."""

    def __init__(self, allowed: AllowedTargets, look_up: LookUp = look_up) -> None:
        self._allowed = allowed
        self._look_up = look_up
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = self._allowed.choose(host, await self._look_up(host, port))
        for address in addresses[:-1]:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Answer(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class CheckedTransport(httpx.AsyncBaseTransport):
    """Replaces httpx's transport, which accepts no network backend."""

    def __init__(self, network: CheckedNetwork, context: ssl.SSLContext, most_kept: int) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=most_kept,
            keepalive_expiry=5.0,
            network_backend=network,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        assert isinstance(request.stream, httpx.AsyncByteStream)
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Answer(answer))

    async def aclose(self) -> None:
        await self._pool.aclose()


def make_client(
    network: CheckedNetwork, context: ssl.SSLContext, timeout_s: float, most_kept: int, agent: str
) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=CheckedTransport(network, context, most_kept),
        trust_env=False,
        follow_redirects=False,
        timeout=timeout_s,
        headers={"User-Agent": agent},
    )

"""The broker's log: recent lines, and a stream of new ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from fastapi import Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from rabbitlike.management.auth import Administrator
from rabbitlike.management.context import Here
from rabbitlike.management.http.errors import ApiError
from rabbitlike.management.http.replies import encode
from rabbitlike.management.http.routing import Router
from rabbitlike.management.node.log_lines import LogLine, LogLines

router = Router("log")

#: After this silence a comment is sent, so that proxies do not close the stream.
SILENCE_S: Final = 15.0


@router.get("/logs", response_class=PlainTextResponse, response_model=None)
async def read(here: Here, caller: Administrator) -> Response:
    """The recent lines as text."""
    return PlainTextResponse("".join(_text(line) for line in here.logs.kept))


def _text(line: LogLine) -> str:
    at = datetime.fromtimestamp(line.timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    return f"{at.removesuffix('+00:00')} [{line.severity.upper()}] {line.message}\n"


@router.get("/livelog", response_model=None)
async def follow(here: Here, caller: Administrator) -> Response:
    """Server-sent events, one per line; `event: lost` reports lines that a slow client missed."""
    if here.logs.is_full:
        raise ApiError(503, "service_unavailable", "too many follow the log already")
    return StreamingResponse(_events(here.logs), media_type="text/event-stream")


async def _events(logs: LogLines) -> AsyncIterator[bytes]:
    with logs.listen() as listener:
        yield b": the log\n\n"
        while True:
            lines, lost = await listener.take(SILENCE_S)
            if lost:
                yield b"event: lost\ndata: " + encode({"lost": lost}) + b"\n\n"
            yield b"".join(_event(line) for line in lines) or b":\n\n"
            if listener.is_closed:
                return


def _event(line: LogLine) -> bytes:
    return f"id: {line.timestamp_ms}\nevent: {line.severity}\ndata: ".encode() + encode(line.view()) + b"\n\n"

"""Definitions of all vhosts or one: export and import, both in slices. For administrators."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException

from rabbitlike.broker.definitions import exports
from rabbitlike.broker.definitions.entries import DefinitionsError
from rabbitlike.broker.definitions.imports import Import
from rabbitlike.management.auth import Administrator, Caller
from rabbitlike.management.http.documents import TooLong, parsed
from rabbitlike.management.http.errors import ApiError, bad_request, not_found
from rabbitlike.management.http.middleware import MULTIPART, check_object, is_empty_body
from rabbitlike.management.http.replies import encode
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing.lists import Slices
from rabbitlike.management.routes.settings.policies import applied
from rabbitlike.management.turns import stored, turn

if TYPE_CHECKING:
    from rabbitlike.broker.broker import Broker
    from rabbitlike.broker.terms import Json

router = Router("definitions")

#: Header with the number of entries that an import skipped.
SKIPPED: Final = "x-skipped-entries"
#: File names that need no quotes in a header.
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
#: A path on this server.
_PLACE: Final = re.compile(r"(?!//)[./\w#?&=%-]+", re.ASCII)


@router.get("/definitions", response_model=None)
@router.get("/all-configuration", response_model=None)
async def export(request: Request, caller: Administrator) -> Response:
    return _export(request, caller, None)


@router.get("/definitions/{vhost:name}", response_model=None)
async def export_vhost(request: Request, caller: Administrator, vhost: str) -> Response:
    if vhost not in caller.context.broker.vhosts:
        raise bad_request("vhost_not_found")  # parity: not a 404
    return _export(request, caller, vhost)


def _export(request: Request, caller: Caller, vhost: str | None) -> Response:
    broker = caller.context.broker
    headers = {}
    if (file := request.query_params.get("download")) is not None:
        if not _TOKEN.fullmatch(file):
            raise bad_request("download: the name of a file")
        headers["content-disposition"] = f"attachment; filename={file}"
    name = broker.parameters.globals.get("cluster_name", broker.settings.cluster_name)
    fields = exports.write(broker, str(name), None if vhost is None else broker.vhosts[vhost])
    return StreamingResponse(_written(fields), media_type="application/json", headers=headers)


async def _written(fields: Iterator[tuple[str, object]]) -> AsyncIterator[bytes]:
    """The document in pieces, each a slice of work."""
    slices = Slices()
    part = bytearray()
    before = b"{"
    for name, value in fields:
        part += before + encode(name) + b":"
        before = b","
        if not isinstance(value, Iterator):
            part += encode(value)
            continue
        part += b"["
        between = b""
        for entry in value:
            part += between + encode(entry)
            between = b","
            if slices.is_over:
                yield bytes(part)
                part.clear()
                await slices.pause()
        part += b"]"
    yield bytes(part) + b"}"


@router.post("/definitions", status_code=204, response_model=None)
@router.post("/all-configuration", status_code=204, response_model=None)
async def load(request: Request, caller: Administrator) -> Response:
    """Import definitions: JSON, or a form with JSON as `file`."""
    return await _import(request, caller, None)


@router.post("/definitions/{vhost:name}", status_code=204, response_model=None)
async def load_vhost(request: Request, caller: Administrator, vhost: str) -> Response:
    if vhost not in caller.context.broker.vhosts:
        raise not_found("vhost_not_found")
    return await _import(request, caller, vhost)


async def _import(request: Request, caller: Caller, vhost: str | None) -> Response:
    document, redirect = await _document(request)
    broker = caller.context.broker
    is_strict = request.query_params.get("strict", "").lower() in ("true", "1")
    taken = Import(broker, document, vhost=vhost, importer=caller.user.name, is_strict=is_strict)
    try:
        await _taken(broker, taken.steps())
        for each in list(broker.vhosts.values()):
            await applied(each)
    except DefinitionsError as error:
        raise bad_request(str(error)) from None
    finally:
        # Entries imported before an error stay: other clients may have changed the broker since the dry run.
        await stored(broker)
    headers = {SKIPPED: str(len(taken.skipped))}
    if redirect:
        return Response(status_code=303, headers={"location": redirect, **headers})
    return Response(status_code=204, headers=headers)


async def _taken(broker: Broker, steps: Iterator[None]) -> None:
    """Import as many entries per turn as one slice allows."""
    slices = Slices()
    is_done = False
    while not is_done:
        with turn(broker):
            is_done = True
            for _ in steps:
                if slices.is_over:
                    is_done = False
                    break
        await slices.pause()


async def _document(request: Request) -> tuple[Json, str]:
    """The document, and the URL that the browser asked to be redirected to."""
    if not request.headers.get("content-type", "").startswith(MULTIPART):
        return await _object(await request.body()), ""
    try:
        async with request.form(max_files=1, max_fields=10) as form:
            file, redirect = form.get("file"), form.get("redirect")
            body = await file.read() if isinstance(file, UploadFile) else str(file or "-").encode()
    except MultiPartException as problem:
        raise bad_request(problem.message) from None
    return await _parsed(body), redirect if isinstance(redirect, str) and _PLACE.fullmatch(redirect) else ""


async def _object(body: bytes) -> Json:
    if is_empty_body(body):
        return {}
    try:
        document = await parsed(body)
    except orjson.JSONDecodeError:
        raise bad_request("not_json") from None
    except TooLong as error:
        raise bad_request(str(error)) from None
    check_object(document)
    return document


async def _parsed(body: bytes) -> Json:
    """The parsed file; ignores a byte order mark, which some editors write."""
    if not body.strip():
        return {}
    try:
        return await parsed(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        raise ApiError(400, "bad_request", "failed_to_parse_json") from None
    except TooLong as error:
        raise bad_request(str(error)) from None

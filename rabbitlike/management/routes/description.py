"""The OpenAPI description of the API. It needs a login, and a thread generates it because that takes long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi import Request, Response

from rabbitlike.management.auth import Member
from rabbitlike.management.http.replies import encode
from rabbitlike.management.http.routing import LateRoute, Router

if TYPE_CHECKING:
    from fastapi import FastAPI

router = Router()

_REFUSAL: Final = {
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}, "reason": {}},
                "required": ["error", "reason"],
            }
        }
    }
}
_REFUSALS: Final = {"400": "Cannot be done so", "401": "Not logged in, or may not", "404": "Not there"}


@router.get("/openapi.json", include_in_schema=False, response_model=None)
async def read(request: Request, caller: Member) -> Response:
    app = cast("FastAPI", request.app)
    if not hasattr(app.state, "description"):
        # Safe on a thread: reads only routes and models, nothing of the broker.
        app.state.description = await asyncio.to_thread(_describe, app)
    return Response(app.state.description, media_type="application/json")


def _describe(app: FastAPI) -> bytes:
    for route in app.routes:
        if isinstance(route, LateRoute):
            route.make()
    schema: dict[str, Any] = app.openapi()
    for path in schema["paths"].values():
        for operation in path.values():
            responses = operation["responses"]
            responses.pop("422", None)  # FastAPI documents 422; here it is 400
            for status, meaning in _REFUSALS.items():
                responses.setdefault(status, {"description": meaning, **_REFUSAL})
    return encode(schema)

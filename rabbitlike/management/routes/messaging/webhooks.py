"""The state of webhook addresses. Beyond RabbitMQ."""

from __future__ import annotations

from fastapi import Request, Response

from rabbitlike.broker.policies.webhook_urls import masked
from rabbitlike.management.auth import Monitor
from rabbitlike.management.context import Here
from rabbitlike.management.http.routing import Router
from rabbitlike.management.listing import lists
from rabbitlike.management.webhooks.webhooks import WebhookTarget

router = Router("webhooks")


@router.get("/webhooks", response_model=None)
async def read(request: Request, here: Here, caller: Monitor) -> Response:
    """List the addresses that got webhooks since the start, with their queued alerts and last result."""
    return await lists.answer(
        request, here.webhooks.targets(), WebhookTarget.view, order=("url",), name_of=lambda target: masked(target.url)
    )

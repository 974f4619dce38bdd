"""Upkeep of the management itself: reset statistics, show options."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Final

from rabbitlike.management.auth import Administrator
from rabbitlike.management.context import Here
from rabbitlike.management.http.errors import not_found
from rabbitlike.management.http.routing import Router

router = Router()

#: Options with one of these words in their name are shown without their value.
_SECRET: Final = ("password", "secret", "token", "keyfile")


@router.delete("/reset", status_code=204)
async def reset(here: Here, caller: Administrator) -> None:
    here.rates.reset()


@router.delete("/reset/{node:name}", status_code=204)
async def reset_node(node: str, here: Here, caller: Administrator) -> None:
    if node != here.node:
        raise not_found()
    here.rates.reset()


@router.post("/rebalance/queues", status_code=204)
async def rebalance(caller: Administrator) -> None:
    """Does nothing: one node holds all queues."""


@router.get("/config/effective")
async def effective_config(here: Here, caller: Administrator) -> dict[str, object]:
    """Every option with its value; for secrets, only whether they are set."""
    settings = here.settings
    shown: dict[str, object] = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        if not each.repr or any(word in each.name for word in _SECRET):
            value = None if value is None else "***"
        shown[each.name] = str(value) if isinstance(value, Path) else value
    return shown

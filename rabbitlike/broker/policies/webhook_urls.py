"""Webhook URLs in policies: which are valid, and how they are shown without the credentials in them.

A user name and password (`https://user:password@host/`) and a query (`?token=…`) are shown as `…`. Who sends a
definition back as it was shown means the URL that is stored; an administrator's export of definitions has it whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from rabbitlike.broker.terms import Json

#: The keys of a policy that are such URLs.
KEYS: Final = ("dead-letter-webhook", "dlq-webhook")
MASK: Final = "…"


def is_web_address(value: Json) -> bool:
    # urlsplit drops line ends and tabs, and other control characters have no place in a request either.
    if not isinstance(value, str) or any(character <= " " or character == "\x7f" for character in value):
        return False
    try:
        address = urlsplit(value)
        is_whole = address.scheme in ("http", "https") and bool(address.hostname) and (address.port or 1) > 0
    except ValueError:
        return False
    return is_whole and not _is_masked(value)


def masked(url: str) -> str:
    """The URL without credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    _, at, host = parts.netloc.rpartition("@")
    query = MASK if parts.query else ""
    if not at and not query:
        return url
    return urlunsplit(parts._replace(netloc=f"{MASK}@{host}" if at else host, query=query))


def _is_masked(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.netloc.startswith(f"{MASK}@") or parts.query == MASK


def masked_definition(definition: Mapping[str, Json]) -> Mapping[str, Json]:
    """A policy's definition as it is shown."""
    if not any(key in definition for key in KEYS):
        return definition
    return {
        key: masked(value) if key in KEYS and isinstance(value, str) else value for key, value in definition.items()
    }


def unmasked_definition(definition: Mapping[str, Json], known: Mapping[str, Json]) -> dict[str, Json]:
    """The definition with the credentials that ``known``, the one it replaces, has where this one shows a mask.

    Raises ValueError for a mask that stands for nothing known.
    """
    whole = dict(definition)
    for key in KEYS:
        url = whole.get(key)
        if not isinstance(url, str) or not _is_masked(url):
            continue
        meant = {value for name in KEYS if isinstance(value := known.get(name), str) and masked(value) == url}
        if not meant:
            raise ValueError(f"{key}: {MASK} stands for credentials that are not shown; give them")
        whole[key] = meant.pop()
    return whole


def without_broken(definition: Mapping[str, Json]) -> dict[str, Json]:
    """A definition that was stored, without webhooks that were valid once."""
    return {key: value for key, value in definition.items() if key not in KEYS or is_web_address(value)}

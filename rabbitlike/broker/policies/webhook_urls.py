"""Webhook URLs in policies: validation, and masking of credentials.

A user name and password (`https://user:password@host/`) and a query (`?token=…`) are shown as `…`. A masked URL that a
client sends back stands for the stored URL. An administrator's export of definitions contains the full URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from rabbitlike.broker.terms import Json

#: Policy keys with webhook URLs.
KEYS: Final = ("dead-letter-webhook", "dlq-webhook")
MASK: Final = "…"


def is_web_address(value: Json) -> bool:
    # urlsplit drops line ends and tabs, and other control characters are invalid in a request too.
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
    """A policy's definition with masked webhook URLs."""
    if not any(key in definition for key in KEYS):
        return definition
    return {
        key: masked(value) if key in KEYS and isinstance(value, str) else value for key, value in definition.items()
    }


def unmasked_definition(definition: Mapping[str, Json], known: Mapping[str, Json]) -> dict[str, Json]:
    """The definition with masks replaced by the credentials in ``known``, the definition that it replaces.

    Raises ValueError for a mask that matches no URL in ``known``.
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
    """A stored definition, without webhooks that are no longer valid."""
    return {key: value for key, value in definition.items() if key not in KEYS or is_web_address(value)}

"""Expiry dates of the listeners' certificates."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rabbitlike.management.node.listeners import listeners_of

if TYPE_CHECKING:
    from rabbitlike.management.context import Context

_END: Final = "-----END CERTIFICATE-----"


async def expiring(here: Context, within_s: int) -> list[dict[str, object]]:
    """The TLS listeners with a certificate or CA certificate that expires within this time. Reads files in a thread."""
    settings = here.settings
    if not any(each.is_tls for each in listeners_of(here)):
        return []
    limit_s = here.broker.clock.now_ms() / 1000 + within_s
    soon = await asyncio.to_thread(_ends_before, settings.tls_certfile, limit_s)
    soon_authorities = await asyncio.to_thread(_ends_before, settings.tls_cafile, limit_s)
    if not soon and not soon_authorities:
        return []
    return [
        {
            "node": here.node,
            "protocol": each.protocol,
            "interface": each.address,
            "port": each.port,
            "certfile": str(settings.tls_certfile or ""),
            "cacertfile": str(settings.tls_cafile or ""),
            "certfile_expires_on": soon,
            "cacertfile_expires_on": soon_authorities,
        }
        for each in listeners_of(here)
        if each.is_tls
    ]


def _ends_before(path: Path | None, limit_s: float) -> list[str]:
    """The expiry times of the certificates in the file that expire before the limit."""
    if path is None:
        return []
    try:
        ends = [_end_of(pem) for pem in path.read_text(encoding="ascii", errors="ignore").split(_END)[:-1]]
    except (OSError, ValueError, ssl.SSLError) as error:
        return [f"cannot be read: {error}"]
    return [datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%d %H:%M:%S") for end_s in ends if end_s < limit_s]


def _end_of(pem: str) -> float:
    """notAfter of one certificate: the second time in the validity field of its DER."""
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE-----") :] + _END)
    at = _enter(der, 0)  # Certificate
    at = _enter(der, at)  # TBSCertificate
    if der[at] == 0xA0:
        at = _after(der, at)
    for _ in ("serialNumber", "signature", "issuer"):
        at = _after(der, at)
    at = _after(der, _enter(der, at))  # validity, past notBefore
    start, end = _content(der, at)
    text = der[start:end].decode("ascii")
    # spec: UTCTime has a two-digit year (below 50: this century), GeneralizedTime four digits.
    if der[at] == 0x17:
        text = ("20" if int(text[:2]) < 50 else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Start and end of the content of the DER element at this offset."""
    if at + 2 > len(der):
        raise ValueError("not a certificate")
    length, at = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, at = int.from_bytes(der[at : at + size], "big"), at + size
    if at + length > len(der):
        raise ValueError("not a certificate")
    return at, at + length


def _enter(der: bytes, at: int) -> int:
    return _content(der, at)[0]


def _after(der: bytes, at: int) -> int:
    return _content(der, at)[1]

"""TLS: the server's context from the options, and the name in a client certificate for SASL EXTERNAL."""

import ssl
from typing import Final, cast

from rabbitlike.config import ConfigError, Settings

_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}
_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: Settings) -> ssl.SSLContext:
    """The context for all TLS listeners; raise ConfigError if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.tls_certfile is None:
        raise ConfigError("TLS needs a certificate: set tls_certfile (--tls-certfile) to a PEM file")
    try:
        # An encrypted key must fail instead of prompting at a terminal that may not exist.
        context.load_cert_chain(settings.tls_certfile, settings.tls_keyfile, password="")
    except (OSError, ssl.SSLError) as error:
        files = f"tls_certfile {settings.tls_certfile}, tls_keyfile {settings.tls_keyfile or settings.tls_certfile}"
        raise ConfigError(f"cannot use {files}: {_said(error)}; give a PEM certificate and its plain key") from None
    if settings.tls_cafile is not None:
        try:
            context.load_verify_locations(settings.tls_cafile)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"cannot use tls_cafile {settings.tls_cafile}: {_said(error)}; give a PEM file") from None
    context.verify_mode = _VERIFY[settings.tls_verify]
    return context


def agreed(connection: ssl.SSLObject) -> dict[str, str]:
    """The negotiated TLS parameters and fields of the client's verified certificate, as fields of Peer.

    parity: uses the terms of RabbitMQ's management; splits the cipher suite as far as its name allows.
    """
    name, _, _ = connection.cipher() or ("", "", 0)
    parts = name.removeprefix("TLS_").replace("_", "-").split("-")
    facts = {
        "tls_protocol": (connection.version() or "").lower(),
        "tls_key_exchange": parts[0].lower() if not name.startswith("TLS_") else "any",
        "tls_cipher": name,
        "tls_hash": parts[-1].lower(),
    }
    certificate = connection.getpeercert()
    if certificate:
        facts["certificate_subject"] = _distinguished(certificate.get("subject", ()))
        facts["certificate_issuer"] = _distinguished(certificate.get("issuer", ()))
        facts["certificate_validity"] = f"{certificate.get('notBefore', '')} - {certificate.get('notAfter', '')}"
    return facts


def _distinguished(name: object) -> str:
    """A distinguished name in the usual notation, most specific part first."""
    relatives = cast(tuple[tuple[tuple[str, str], ...], ...], name)
    pairs = [f"{_SHORT.get(key, key)}={value}" for relative in relatives for key, value in relative]
    return ",".join(reversed(pairs))


def certificate_name(connection: ssl.SSLObject) -> str | None:
    """The common name of the client's verified certificate; None without one."""
    certificate = connection.getpeercert()
    if not certificate:
        return None
    # `subject` is a sequence of relative names, each a sequence of pairs; the last common name is the most specific.
    subject = cast(tuple[tuple[tuple[str, str], ...], ...], certificate.get("subject", ()))
    names = [value for relative in subject for key, value in relative if key == "commonName"]
    return names[-1] if names else None


def _said(error: OSError) -> str:
    return error.strerror or str(error)

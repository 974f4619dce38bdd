"""CC and BCC: additional routing keys in the headers.

parity: both must be arrays; items that are not strings are ignored. Consumers see CC; BCC is removed before delivery.
"""

from rabbitlike.protocol.errors import precondition_failed
from rabbitlike.protocol.properties import Properties
from rabbitlike.protocol.tables import Table, kind_name


def take_copies(routing_key: str, properties: Properties) -> tuple[list[str], Properties]:
    """All routing keys, the publish's own first, and the properties for consumers."""
    keys = [routing_key]
    if not properties.mentions(b"CC"):  # BCC ends in CC, too
        return keys, properties
    headers = properties.headers
    if not headers:
        return keys, properties
    for name in ("CC", "BCC"):
        keys += _keys(headers, name)
    if "BCC" in headers:
        del headers["BCC"]
        properties = properties.replace(headers=headers)
    return keys, properties


def _keys(headers: Table, name: str) -> list[str]:
    if name not in headers:
        return []
    copies = headers[name]
    if not isinstance(copies, list):
        kind = kind_name(headers.kind(name))
        raise precondition_failed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
    return [key for key in copies if isinstance(key, str)]

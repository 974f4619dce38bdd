"""The refusal of an unknown exchange type.

parity: RabbitMQ's text is "invalid" if the name is an atom in its Erlang node, else "unknown". The atoms depend on the
modules that the node has loaded; every node has the ones listed here.
"""

from typing import Final

from rabbitlike.protocol.errors import AmqpError, precondition_failed

_ATOMS: Final = frozenset(
    """
    all any default error exchange false global infinity internal invalid local name node none null ok other queue
    stream system test text true type undefined unknown
    """.split()
) | {""}


def unknown_kind(kind: str) -> AmqpError:
    """The error 406 with RabbitMQ's text for this type."""
    return precondition_failed(f"{'invalid' if kind in _ATOMS else 'unknown'} exchange type '{kind}'")

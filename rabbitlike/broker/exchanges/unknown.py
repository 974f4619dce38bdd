"""The refusal of an exchange type that there is not.

parity: RabbitMQ says "invalid" where the word is an atom of its Erlang node, and "unknown" elsewhere. Which atoms there
are depends on what the node has loaded; these every node has.
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
    """406, with RabbitMQ's word for this type."""
    return precondition_failed(f"{'invalid' if kind in _ATOMS else 'unknown'} exchange type '{kind}'")

"""Addresses of direct replies, for requesters without a reply queue.

parity: `amq.rabbitmq.reply-to.<process id>.<key>`, both parts in base64, as in RabbitMQ 3.13. The key makes an address
unguessable; the process id is fictitious but has the right form.
"""

import struct
from base64 import b64encode
from itertools import count
from secrets import token_bytes
from typing import Final

#: The pseudo queue that a requester consumes from.
DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"
#: Prefix of routing keys that are addresses of direct replies.
REPLIES: Final = DIRECT_REPLY + "."

#: RabbitMQ puts a hash of the node's name here.
_NODE: Final = b"reply@64317241"
#: Erlang's external term format: version, NEW_PID_EXT, ATOM_UTF8_EXT and the atom's length.
_HEAD: Final = struct.pack(">BBBH", 131, 88, 118, len(_NODE)) + _NODE
_CREATION: Final = 1
_KEY_SIZE: Final = 16

_serials = count(1)


def make_reply_name() -> str:
    """A unique and unguessable address."""
    process_id = _HEAD + struct.pack(">III", next(_serials) & 0x7FFF_FFFF, 0, _CREATION)
    return f"{REPLIES}{b64encode(process_id).decode()}.{b64encode(token_bytes(_KEY_SIZE)).decode()}"

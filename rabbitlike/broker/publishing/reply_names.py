"""Names of direct replies: the addresses under which a requester without a queue is reached.

parity: `amq.rabbitmq.reply-to.<process id>.<key>`, both parts in base64, as RabbitMQ 3.13 writes them. The key alone
makes a name that cannot be guessed; the process id is a made-up one of the right form.
"""

import struct
from base64 import b64encode
from itertools import count
from secrets import token_bytes
from typing import Final

#: The pseudo queue that a requester consumes from.
DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"
#: Routing keys that begin with this are addresses of direct replies.
REPLIES: Final = DIRECT_REPLY + "."

#: RabbitMQ puts a hash of the node's name here.
_NODE: Final = b"reply@64317241"
#: Erlang's external term format: version, NEW_PID_EXT, ATOM_UTF8_EXT and the atom's length.
_HEAD: Final = struct.pack(">BBBH", 131, 88, 118, len(_NODE)) + _NODE
_CREATION: Final = 1
_KEY_SIZE: Final = 16

_serials = count(1)


def make_reply_name() -> str:
    """A name that nobody else has and nobody can guess."""
    process_id = _HEAD + struct.pack(">III", next(_serials) & 0x7FFF_FFFF, 0, _CREATION)
    return f"{REPLIES}{b64encode(process_id).decode()}.{b64encode(token_bytes(_KEY_SIZE)).decode()}"

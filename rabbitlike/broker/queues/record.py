"""Messages of one batch as octets: what the store keeps and gives back.

Each message is a head of fixed size, then address, properties and body just as they are on the wire. The store never
looks inside. A change of this layout is a change of the schema.
"""

from rabbitlike.broker.message import Message
from rabbitlike.protocol import octets

#: position, published_at_ms, expires_at_ms, flags, priority, then the lengths of address, properties and body.
HEAD = 36
PERSISTENT = 1
#: The priority is 255; without it, that octet says that there is none.
HIGHEST = 2
NO_PRIORITY = 255


def pack(messages: list[Message]) -> bytes:
    size = 0
    for message in messages:
        size += HEAD + len(message.address) + len(message.properties) + len(message.body)
    data = bytearray(size)
    p = data
    at = 0
    for message in messages:
        octets.put_u64(p, at, message.position)
        octets.put_u64(p, at + 8, message.published_at_ms)
        octets.put_u64(p, at + 16, message.expires_at_ms)
        p[at + 24] = (PERSISTENT if message.persistent else 0) | (HIGHEST if message.priority == 255 else 0)
        p[at + 25] = NO_PRIORITY if message.priority < 0 else message.priority
        octets.put_u16(p, at + 26, len(message.address))
        octets.put_u32(p, at + 28, len(message.properties))
        octets.put_u32(p, at + 32, len(message.body))
        at += HEAD
        octets.put_bytes(p, at, message.address)
        at += len(message.address)
        octets.put_bytes(p, at, message.properties)
        at += len(message.properties)
        octets.put_bytes(p, at, message.body)
        at += len(message.body)
    p = data
    return octets.cut(p, 0, size)


def unpack(data: bytes) -> list[Message]:
    """The messages in the order they were packed."""
    p = data
    end = len(data)
    at = 0
    messages = []
    index = 0
    while end - at >= HEAD:
        address_end = at + HEAD + octets.get_u16(p, at + 26)
        properties_end = address_end + octets.get_u32(p, at + 28)
        body_end = properties_end + octets.get_u32(p, at + 32)
        if body_end > end:
            break
        priority = p[at + 25]
        message = Message(
            octets.cut(p, at + HEAD, address_end),
            octets.cut(p, address_end, properties_end),
            octets.cut(p, properties_end, body_end),
            p[at + 24] & PERSISTENT != 0,
            -1 if priority == NO_PRIORITY and p[at + 24] & HIGHEST == 0 else priority,
            octets.get_u64(p, at + 8),
        )
        message.position = octets.get_u64(p, at)
        message.expires_at_ms = octets.get_u64(p, at + 16)
        message.index = index
        index += 1
        messages.append(message)
        at = body_end
    if at != end:
        raise ValueError(f"a batch of {end} octets does not end where its messages do")
    return messages

"""The format of a batch of messages as the store keeps it.

Each message is a header of fixed size, then address, properties and body just as they are on the wire. The store does
not read the contents. A change of this layout is a change of the schema.
"""

from rabbitlike.broker.message import Message
from rabbitlike.protocol import octets

#: position, published_at_ms, expires_at_ms, flags, priority, then the lengths of address, properties and body.
HEAD = 36
PERSISTENT = 1
#: Flag: octet 255 is the priority. Without the flag, it means no priority.
HIGHEST = 2
NO_PRIORITY = 255
#: A batch has at most this many messages and bytes, because one turn reads and unpacks it.
BATCH_MESSAGES = 4096
BATCH_BYTES = 1024 * 1024
#: A larger body is copied only once and, if another thread packs it, without the interpreter's lock.
LARGE_BODY = 1024 * 1024


def portions(messages: list[Message], most: int = BATCH_MESSAGES, most_bytes: int = BATCH_BYTES) -> list[list[Message]]:
    """Split a list into parts for one batch each. A message larger than a batch gets a batch of its own."""
    if len(messages) == 1:
        return [messages]
    found: list[list[Message]] = []
    portion: list[Message] = []
    size = 0
    for message in messages:
        octets_of = len(message.address) + len(message.properties) + len(message.body)
        if portion and (size + octets_of > most_bytes or len(portion) >= most):
            found.append(portion)
            portion = []
            size = 0
        portion.append(message)
        size += octets_of
    if portion:
        found.append(portion)
    return found


def pack(messages: list[Message]) -> bytes:
    if len(messages) == 1:
        message = messages[0]
        if len(message.body) > LARGE_BODY:
            # A large bytes join releases the lock, so the loop runs on while the writer's thread packs.
            return b"".join((_pack(messages, False), message.body))
    return _pack(messages, True)


def _pack(messages: list[Message], is_whole: bool) -> bytes:
    """Pack messages; without the body if not ``is_whole``, for a single message."""
    size = 0
    for message in messages:
        size += HEAD + len(message.address) + len(message.properties)
        if is_whole:
            size += len(message.body)
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
        if is_whole:
            octets.put_bytes(p, at, message.body)
            at += len(message.body)
    p = data
    return octets.cut(p, 0, size)


def unpack(data: bytes) -> list[Message]:
    """Return the messages in the order they were packed."""
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


def unpack_large(head: bytes, body: bytes) -> Message:
    """Return the only message of a batch from the bytes before its body and that body."""
    size = int.from_bytes(head[32:HEAD], "big") if len(head) >= HEAD else -1
    if size != len(body):
        raise ValueError(f"a body of {len(body)} octets is not the one of its batch")
    # Unpack it without a body and then set the body, so that the body is not copied.
    message = unpack(head[:32] + bytes(4) + head[HEAD:])[0]
    message.body = body
    return message

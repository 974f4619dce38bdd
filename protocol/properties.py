"""Basic properties of a message, kept as the received octets and read field by field.

`raw` holds the property flags and property list of a content header. The constructor walks it once, so that everything
accepted can be passed on: it refuses a malformed block, including its headers, with 501, and later reads cannot fail. A
change makes new properties in which everything else stays byte for byte.
"""

from collections.abc import Mapping
from typing import Final

from rabbitlike.protocol import octets, tables
from rabbitlike.protocol.constants import (
    APP_ID,
    CLUSTER_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
    USER_ID,
)
from rabbitlike.protocol.errors import AmqpError, frame_error, precondition_failed
from rabbitlike.protocol.tables import Table, Timestamp, Value

#: Octets are encoded headers, with their length.
FieldValue = str | int | bytes | Mapping[str, Value] | None

#: parity: RabbitMQ's longest timer, ten years.
EXPIRATION_MAX_MS: Final = 10 * 365 * 86400 * 1000

NOT_A_FIELD = 0x0003
MORE_FLAGS = 0x0001
PERSISTENT = 2

_FLAGS: Final[dict[str, int]] = {
    "content_type": CONTENT_TYPE,
    "content_encoding": CONTENT_ENCODING,
    "headers": HEADERS,
    "delivery_mode": DELIVERY_MODE,
    "priority": PRIORITY,
    "correlation_id": CORRELATION_ID,
    "reply_to": REPLY_TO,
    "expiration": EXPIRATION,
    "message_id": MESSAGE_ID,
    "timestamp": TIMESTAMP,
    "type": TYPE,
    "user_id": USER_ID,
    "app_id": APP_ID,
    "cluster_id": CLUSTER_ID,
}

# Octets of a field value by its type letter; the others carry their length or do not exist.
LENGTH_GIVEN = 254
UNKNOWN_KIND = 255
ARRAY_KIND = 0x41
TABLE_KIND = 0x46
MAX_DEPTH = tables.MAX_DEPTH


def _kind_sizes() -> bytes:
    sizes = bytearray([UNKNOWN_KIND]) * 256
    for letters, size in (("V", 0), ("tbB", 1), ("su", 2), ("Iif", 4), ("D", 5), ("lLTd", 8), ("SxAF", LENGTH_GIVEN)):
        for letter in letters:
            sizes[ord(letter)] = size
    return bytes(sizes)


KIND_SIZES = _kind_sizes()


def is_whole(p: bytes, at: int, end: int, with_keys: bool, depth: int) -> bool:
    """Whether `p[at:end]` is a valid body of a table or an array; like decoding, but without making objects."""
    while at < end:
        if with_keys:
            at += 1 + p[at]
            if at >= end:
                return False
        kind = p[at]
        size = KIND_SIZES[kind]
        at += 1
        if size == UNKNOWN_KIND:
            return False
        if size == LENGTH_GIVEN:
            if end - at < 4:
                return False
            size = octets.get_u32(p, at)
            at += 4
            if size > end - at:
                return False
            if kind == TABLE_KIND or kind == ARRAY_KIND:
                if depth >= MAX_DEPTH or not is_whole(p, at, at + size, kind == TABLE_KIND, depth + 1):
                    return False
        at += size
    return at == end


class Properties:
    """The properties of one message, or of consecutive messages with the same ones."""

    __slots__ = ("_headers_at", "_headers_end", "_start", "flags", "has_headers", "persistent", "priority", "raw")

    def __init__(self, raw: bytes, is_checked: bool = False) -> None:
        """Raise 501 if malformed. `is_checked` means known to be valid, so that long headers are not walked."""
        self.raw = raw
        self.flags = 0
        #: delivery_mode 2; absent means transient.
        self.persistent = False
        #: As sent; -1 if absent.
        self.priority = -1
        self.has_headers = False
        self._start = 2
        self._headers_at = 0
        self._headers_end = 0
        self._walk(is_checked)

    def _walk(self, is_checked: bool) -> None:
        """Check every field against the end of the block, and note the fields that each publish needs."""
        p = self.raw
        end = len(self.raw)
        if end < 2:
            raise malformed("truncated property flags")
        rest = octets.get_u16(p, 0)
        at = 2
        if rest & NOT_A_FIELD:
            at = self._skip_flag_words()
            rest &= ~NOT_A_FIELD
        self.flags = rest
        self._start = at
        bit = CONTENT_TYPE
        while rest:
            if rest & bit:
                if at >= end:
                    raise malformed("truncated property list")
                if bit == HEADERS:
                    at = self._walk_headers(at, end, is_checked)
                elif bit == DELIVERY_MODE:
                    self.persistent = p[at] == PERSISTENT
                    at += 1
                elif bit == PRIORITY:
                    self.priority = p[at]
                    at += 1
                elif bit == TIMESTAMP:
                    at += 8
                else:
                    at += 1 + p[at]
                rest ^= bit
            bit >>= 1
        if at != end:
            raise malformed("property list and property flags disagree")

    def _skip_flag_words(self) -> int:
        """The start of the property list. spec: a set bit 0 announces one more flag word; basic has no fields there."""
        p = self.raw
        end = len(self.raw)
        at = 2
        word = octets.get_u16(p, 0) & NOT_A_FIELD
        while word & MORE_FLAGS:
            if end - at < 2:
                raise malformed("truncated property flags")
            word = (word & ~MORE_FLAGS) | octets.get_u16(p, at)
            at += 2
        if word:
            raise malformed("unknown property")
        return at

    def _walk_headers(self, at: int, end: int, is_checked: bool) -> int:
        p = self.raw
        if end - at < 4:
            raise malformed("truncated headers")
        size = octets.get_u32(p, at)
        start = at + 4
        if size > end - start:
            raise malformed("truncated headers")
        if not is_checked and not is_whole(p, start, start + size, True, 1):
            raise malformed("headers are not a field table")
        self.has_headers = True
        self._headers_at = at
        self._headers_end = start + size
        return start + size

    def _place(self, field: int) -> int:
        """The start of a field that is present."""
        p = self.raw
        flags = self.flags
        at = self._start
        bit = CONTENT_TYPE
        while bit != field:
            if flags & bit:
                at = after_field(p, bit, at)
            bit >>= 1
        return at

    def _shortstr(self, field: int) -> str | None:
        if not self.flags & field:
            return None
        at = self._place(field)
        return str(self.raw[at + 1 : at + 1 + self.raw[at]], "utf-8", "surrogateescape")

    def mentions(self, key: bytes) -> bool:
        """Whether the headers may contain `key`: never wrongly False, and cheaper than decoding them."""
        return self.has_headers and self.raw.find(key, self._headers_at, self._headers_end) >= 0

    def header_at(self, key: bytes) -> int:
        """The position of a header's value, starting with its type letter; 0 if there is none. If a key occurs twice,
        the last one counts, as when all are decoded."""
        found = 0
        if not self.has_headers:
            return found
        p = self.raw
        k = key
        size = len(key)
        at = self._headers_at + 4
        end = self._headers_end
        while at < end:
            length = p[at]
            at += 1
            if length == size and is_same(p, at, k, size):
                found = at + length
            at = after_value(p, at + length)
        return found

    def header(self, key: bytes) -> Value:
        """One header, decoded alone; None if absent."""
        at = self.header_at(key)
        return None if at == 0 else tables.decode_value(self.raw, at)

    def header_fields(self) -> dict[bytes, memoryview]:
        """The value of each header as a view of `raw`, including its type letter, without decoding or copying. If a key
        occurs twice, the last one counts."""
        fields: dict[bytes, memoryview] = {}
        if not self.has_headers:
            return fields
        p = self.raw
        view = memoryview(self.raw)
        at = self._headers_at + 4
        end = self._headers_end
        while at < end:
            start = at + 1 + p[at]
            stop = after_value(p, start)
            fields[self.raw[at + 1 : start]] = view[start:stop]
            at = stop
        return fields

    @property
    def headers_raw(self) -> bytes:
        """The headers table as received, including its length prefix; empty if absent."""
        return self.raw[self._headers_at : self._headers_end]

    @property
    def headers(self) -> Table | None:
        """The headers, decoded at every access, so that the caller may change the result."""
        if not self.has_headers:
            return None
        return tables.decode(self.raw, self._headers_at)[0]

    @property
    def content_type(self) -> str | None:
        return self._shortstr(CONTENT_TYPE)

    @property
    def content_encoding(self) -> str | None:
        return self._shortstr(CONTENT_ENCODING)

    @property
    def delivery_mode(self) -> int | None:
        return self.raw[self._place(DELIVERY_MODE)] if self.flags & DELIVERY_MODE else None

    @property
    def correlation_id(self) -> str | None:
        return self._shortstr(CORRELATION_ID)

    @property
    def reply_to(self) -> str | None:
        return self._shortstr(REPLY_TO)

    @property
    def expiration(self) -> str | None:
        return self._shortstr(EXPIRATION)

    @property
    def expiration_ms(self) -> int:
        """The expiration as a number; -1 if absent; 406 if it is not a number."""
        expiration = self._shortstr(EXPIRATION)
        return -1 if expiration is None else parse_expiration(expiration)

    @property
    def message_id(self) -> str | None:
        return self._shortstr(MESSAGE_ID)

    @property
    def timestamp(self) -> Timestamp | None:
        if not self.flags & TIMESTAMP:
            return None
        at = self._place(TIMESTAMP)
        return Timestamp(int.from_bytes(self.raw[at : at + 8], "big"))

    @property
    def type(self) -> str | None:
        return self._shortstr(TYPE)

    @property
    def user_id(self) -> str | None:
        return self._shortstr(USER_ID)

    @property
    def app_id(self) -> str | None:
        return self._shortstr(APP_ID)

    @property
    def cluster_id(self) -> str | None:
        return self._shortstr(CLUSTER_ID)

    def replace(self, **fields: FieldValue) -> "Properties":
        """A copy with some fields set, or removed by None; the others are copied octet by octet."""
        flags = 0
        parts = [b""]
        at = self._start
        for name, bit in _FLAGS.items():
            stop = after_field(self.raw, bit, at) if self.flags & bit else at
            if name not in fields:
                part = self.raw[at:stop]
            else:
                part = encode_field(name, bit, fields.pop(name))
            if part:
                flags |= bit
                parts.append(part)
            at = stop
        if fields:
            raise TypeError(f"no such property: {', '.join(fields)}")
        parts[0] = flags.to_bytes(2, "big")
        return Properties(b"".join(parts), True)

    @staticmethod
    def build(**fields: FieldValue) -> "Properties":
        """Properties with only these fields."""
        return EMPTY.replace(**fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        present = [f"{name}={getattr(self, name)!r}" for name, bit in _FLAGS.items() if self.flags & bit]
        return f"Properties({', '.join(present)})"


def malformed(reason: str) -> AmqpError:
    return frame_error(f"cannot decode content header: {reason}")


def after_field(p: bytes, bit: int, at: int) -> int:
    """The end of the field at `at`."""
    if bit == HEADERS:
        return at + 4 + octets.get_u32(p, at)
    if bit == DELIVERY_MODE or bit == PRIORITY:
        return at + 1
    if bit == TIMESTAMP:
        return at + 8
    return at + 1 + p[at]


def after_value(p: bytes, at: int) -> int:
    """The end of a table value whose type letter is at `at`; the value must be valid."""
    size = KIND_SIZES[p[at]]
    return at + 5 + octets.get_u32(p, at + 1) if size == LENGTH_GIVEN else at + 1 + size


def encode_headers(fields: Mapping[bytes, bytes | memoryview]) -> bytes:
    """Encode a table with its length prefix from encoded values, as `header_fields` returns them."""
    parts: list[bytes | memoryview] = [b""]
    size = 0
    for key, value in fields.items():
        parts += (bytes((len(key),)), key, value)
        size += 1 + len(key) + len(value)
    parts[0] = size.to_bytes(4, "big")
    return b"".join(parts)


def is_same(p: bytes, at: int, k: bytes, size: int) -> bool:
    """Whether the octets at `at` equal `k`."""
    for index in range(size):
        if p[at + index] != k[index]:
            return False
    return True


def message_id_of(raw: bytes) -> bytes:
    """The octets of the message id; empty if absent."""
    at = message_id_at(raw)
    return raw[at + 1 : at + 1 + raw[at]] if at > 0 else b""


def message_id_at(raw: bytes) -> int:
    """The position of the message id's length octet; 0 if absent. Cheaper than a Properties; `raw` must be valid."""
    p = raw
    flags = octets.get_u16(p, 0)
    if flags & MESSAGE_ID == 0:
        return 0
    at = 2
    if flags & MORE_FLAGS:
        while octets.get_u16(p, at) & MORE_FLAGS:
            at += 2
        at += 2
    bit = CONTENT_TYPE
    while bit != MESSAGE_ID:
        if flags & bit:
            at = after_field(p, bit, at)
        bit >>= 1
    return at


def encode_field(name: str, bit: int, value: FieldValue) -> bytes:
    """Encode a field for the property list; empty for None."""
    if value is None:
        return b""
    if bit == HEADERS and isinstance(value, bytes):
        return value
    if bit == HEADERS and isinstance(value, Mapping):
        return tables.encode(value)
    if isinstance(value, int) and bit & (DELIVERY_MODE | PRIORITY | TIMESTAMP):
        size = 8 if bit == TIMESTAMP else 1
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"property {name} cannot be {value}")
        return value.to_bytes(size, "big")
    if isinstance(value, str) and not bit & (HEADERS | DELIVERY_MODE | PRIORITY | TIMESTAMP):
        text = value.encode("utf-8", "surrogateescape")
        if len(text) > 255:
            raise ValueError(f"property {name} is longer than 255 octets")
        return bytes((len(text),)) + text
    raise TypeError(f"property {name} cannot be a {type(value).__name__}")


def parse_expiration(text: str) -> int:
    """Parse the decimal string of the expiration property as milliseconds; error texts are RabbitMQ's."""
    start = 1 if text[:1] in ("+", "-") else 0
    stop = start
    while stop < len(text) and "0" <= text[stop] <= "9":
        stop += 1
    if stop == start:
        raise precondition_failed(f"invalid expiration '{text}': no_integer")
    if stop < len(text):
        raise precondition_failed(f"invalid expiration '{text}': {{leftover_string,\"{text[stop:]}\"}}")
    milliseconds = int(text)
    if milliseconds < 0:
        raise precondition_failed(f"invalid expiration '{text}': {{value_negative,{milliseconds}}}")
    if milliseconds > EXPIRATION_MAX_MS:
        raise precondition_failed(f"invalid expiration '{text}': {{value_too_large,{milliseconds}}}")
    return milliseconds


EMPTY: Final = Properties(b"\x00\x00")

"""Deduplication: a queue or exchange drops and confirms a message whose key it has seen.

Keys are kept until newer keys replace them, or for a time. A key is stored in the same commit as its message, so that
both survive a crash or neither does. The cost of a lookup does not depend on the number of keys.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from rabbitlike.protocol.properties import Properties
from rabbitlike.storage.api import SeenKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rabbitlike.broker.exchanges.exchange import Exchange
    from rabbitlike.broker.journal import Journal
    from rabbitlike.broker.turn import Turn
    from rabbitlike.storage.api import Work

#: Headers of messages, with the names of the RabbitMQ plugin for message deduplication.
_HEADER: Final = b"x-deduplication-header"
_CACHE_TTL: Final = b"x-cache-ttl"
_PRODUCER_ID: Final = b"x-producer-id"
_PRODUCER_SEQ: Final = b"x-producer-seq"

DEFAULT_SIZE: Final = 100_000
LARGEST_SIZE: Final = 10_000_000
#: Ten years: the store holds 64 bits, and a header or a policy may set more.
LONGEST_TTL_MS: Final = 315_360_000_000

KeyBy = Literal["header", "message-id"]


@dataclass(frozen=True, slots=True)
class DeduplicationRules:
    """How many keys are kept and for how long, and which part of a message is the key."""

    size: int = DEFAULT_SIZE
    #: None: no limit in time.
    ttl_ms: int | None = None
    by: KeyBy = "header"


def read_rules(values: Mapping[str, object]) -> DeduplicationRules | None:
    """Read the rules from checked settings. None: no deduplication."""
    if values.get("message-deduplication") is not True:
        return None
    size, ttl_ms = values.get("cache-size"), values.get("cache-ttl")
    return DeduplicationRules(
        size=min(size, LARGEST_SIZE) if isinstance(size, int) else DEFAULT_SIZE,
        ttl_ms=min(ttl_ms, LONGEST_TTL_MS) if isinstance(ttl_ms, int) else None,
        by="message-id" if values.get("deduplication-by") == "message-id" else "header",
    )


class Key(NamedTuple):
    """The key of a message. Messages of a numbered producer share a digest and differ only in the number."""

    digest: bytes
    #: 0: it has no number.
    number: int
    #: How long to keep this key; None: as in the rules.
    ttl_ms: int | None


class SeenEntry(NamedTuple):
    number: int
    #: 0: never.
    expires_at_ms: int
    is_stored: bool


class Deduplication:
    """The keys that one queue or exchange has seen. A log of the journal: new keys are part of the next commit."""

    __slots__ = (
        "_entries",
        "_fresh",
        "_gone",
        "_is_stored",
        "_journal",
        "_last",
        "_owner",
        "_turn",
        "dropped",
        "is_touched",
        "rules",
    )

    def __init__(
        self, owner: str, rules: DeduplicationRules, turn: Turn, journal: Journal | None, durable: bool
    ) -> None:
        self.rules = rules
        #: Total number of dropped messages.
        self.dropped = 0
        self.is_touched = False
        self._owner = owner
        self._turn = turn
        self._journal = journal
        #: Whether keys outlive the process.
        self._is_stored = durable and journal is not None
        #: Oldest first.
        self._entries: OrderedDict[bytes, SeenEntry] = OrderedDict()
        self._fresh: dict[bytes, SeenKey] = {}
        self._gone: dict[bytes, None] = {}
        #: Caches the key between `has` and `add`, so that the properties are read once.
        self._last: tuple[bytes, Key | None] = (b"", None)

    def __len__(self) -> int:
        return len(self._entries)

    def has(self, properties: bytes) -> bool:
        """Whether this message is a duplicate; if so, it is counted."""
        key = self._key_of(properties)
        entry = None if key is None else self._entries.get(key.digest)
        if key is None or entry is None or key.number > entry.number:
            return False
        if 0 < entry.expires_at_ms <= self._turn.now_ms:
            return False
        self.dropped += 1
        if self._journal is not None:
            # The publisher waits for a commit, which may otherwise be empty.
            self._journal.ask()
        return True

    def add(self, properties: bytes, persistent: bool) -> None:
        """Remember the key of an accepted message."""
        key = self._key_of(properties)
        if key is None:
            return
        ttl_ms = self.rules.ttl_ms if key.ttl_ms is None else key.ttl_ms
        expires_at_ms = 0 if ttl_ms is None else self._turn.now_ms + ttl_ms
        known = self._entries.pop(key.digest, None)
        # The key of a message that a crash loses must be lost with it, or the message could not be sent again.
        is_stored = persistent and self._is_stored
        self._entries[key.digest] = SeenEntry(key.number, expires_at_ms, is_stored)
        if is_stored:
            self._gone.pop(key.digest, None)
            self._fresh[key.digest] = SeenKey(self._owner, key.digest, key.number, expires_at_ms)
            self._touch()
        elif known is not None and known.is_stored:
            self._unstore(key.digest)
        self._shrink()

    def recover(self, seen: Iterable[SeenKey]) -> None:
        """Restore the keys of the last run, oldest first."""
        for each in seen:
            self._entries[each.key] = SeenEntry(each.number, each.expires_at_ms, True)
        self._shrink()

    def forget(self) -> None:
        """Remove all keys: the owner was deleted, or deduplication is switched off."""
        self._entries.clear()
        self._fresh.clear()
        self._gone.clear()
        if self._journal is not None and self._is_stored:
            self._journal.forget(self._owner)

    def take(self, work: Work) -> None:
        self.is_touched = False
        work.forgotten += [(self._owner, digest) for digest in self._gone]
        work.seen += self._fresh.values()
        self._gone = {}
        self._fresh = {}

    def written(self) -> None:
        """Do nothing: publishers wait for the message's own log."""

    def _shrink(self) -> None:
        """Remove the oldest keys while there are too many or the oldest has expired."""
        while self._entries:
            digest, entry = next(iter(self._entries.items()))
            if len(self._entries) <= self.rules.size and not 0 < entry.expires_at_ms <= self._turn.now_ms:
                return
            del self._entries[digest]
            if entry.is_stored:
                self._unstore(digest)

    def _unstore(self, digest: bytes) -> None:
        self._fresh.pop(digest, None)
        self._gone[digest] = None
        self._touch()

    def _touch(self) -> None:
        if not self.is_touched and self._journal is not None:
            self._journal.touch(self)

    def _key_of(self, raw: bytes) -> Key | None:
        if self._last[0] is not raw:
            self._last = (raw, key_of(Properties(raw), self.rules.by))
        return self._last[1]


def remembering(
    known: Deduplication | None,
    rules: DeduplicationRules | None,
    owner: str,
    turn: Turn,
    journal: Journal | None,
    durable: bool,
) -> Deduplication | None:
    """The deduplication of an owner under new rules: kept, created or removed."""
    if rules is None:
        if known is not None:
            known.forget()
        return None
    if known is None:
        return Deduplication(owner, rules, turn, journal, durable)
    known.rules = rules
    return known


def seen_by(exchange: Exchange) -> str:
    """The name under which the store keeps the keys of an exchange."""
    return f"exchange {json.dumps([exchange.vhost, exchange.name])}"


def key_of(properties: Properties, by: KeyBy) -> Key | None:
    """The key of a message. None: it has no key and is never a duplicate."""
    ttl = properties.header(_CACHE_TTL)
    ttl_ms = min(ttl, LONGEST_TTL_MS) if isinstance(ttl, int) and not isinstance(ttl, bool) and ttl > 0 else None
    producer = properties.header(_PRODUCER_ID)
    if isinstance(producer, str):
        number = properties.header(_PRODUCER_SEQ)
        if isinstance(number, int) and 0 < number < 1 << 63:
            return Key(_digest("producer", producer), number, ttl_ms)
    value = properties.header(_HEADER) if by == "header" else properties.message_id
    if value is None:
        return None
    return Key(_digest(by, f"{type(value).__name__}:{value!r}"), 0, ttl_ms)


def _digest(kind: str, text: str) -> bytes:
    """A digest of fixed size for a key of any length."""
    return blake2b(f"{kind}\0{text}".encode("utf-8", "surrogateescape"), digest_size=16).digest()

"""What a queue or exchange has seen already: a message whose key is known is dropped, and its publisher told that all
is well.

Keys are remembered until newer ones push them out, or for a time; they are stored in the same commit as the message
that brought them, so that both outlive a crash or neither does. Looking one up costs the same whatever their number.
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

#: Headers of messages, named as those of the RabbitMQ plugin for message deduplication.
_HEADER: Final = b"x-deduplication-header"
_CACHE_TTL: Final = b"x-cache-ttl"
_PRODUCER_ID: Final = b"x-producer-id"
_PRODUCER_SEQ: Final = b"x-producer-seq"

DEFAULT_SIZE: Final = 100_000
LARGEST_SIZE: Final = 10_000_000
#: Ten years: the store holds 64 bits, and a header or a policy may say more.
LONGEST_TTL_MS: Final = 315_360_000_000

KeyBy = Literal["header", "message-id"]


@dataclass(frozen=True, slots=True)
class DeduplicationRules:
    """How much is remembered, and what tells one message from another."""

    size: int = DEFAULT_SIZE
    #: None: as long as there is room.
    ttl_ms: int | None = None
    by: KeyBy = "header"


def read_rules(values: Mapping[str, object]) -> DeduplicationRules | None:
    """Of settings whose values have passed their checks; None: duplicates are messages like any other."""
    if values.get("message-deduplication") is not True:
        return None
    size, ttl_ms = values.get("cache-size"), values.get("cache-ttl")
    return DeduplicationRules(
        size=min(size, LARGEST_SIZE) if isinstance(size, int) else DEFAULT_SIZE,
        ttl_ms=min(ttl_ms, LONGEST_TTL_MS) if isinstance(ttl_ms, int) else None,
        by="message-id" if values.get("deduplication-by") == "message-id" else "header",
    )


class Key(NamedTuple):
    """What a message is known by. Those of a numbered producer share one: only the number tells them apart."""

    digest: bytes
    #: 0: it has no number.
    number: int
    #: Its own time to be remembered; None: the rules'.
    ttl_ms: int | None


class SeenEntry(NamedTuple):
    number: int
    #: 0: never.
    expires_at_ms: int
    is_stored: bool


class Deduplication:
    """The keys that one queue or exchange has seen. A log for the journal: what it learned goes with the commit."""

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
        #: How many were dropped, ever.
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
        #: Asking and remembering follow each other: the properties are read once.
        self._last: tuple[bytes, Key | None] = (b"", None)

    def __len__(self) -> int:
        return len(self._entries)

    def has(self, properties: bytes) -> bool:
        """Is this message a duplicate? It is counted as one."""
        key = self._key_of(properties)
        entry = None if key is None else self._entries.get(key.digest)
        if key is None or entry is None or key.number > entry.number:
            return False
        if 0 < entry.expires_at_ms <= self._turn.now_ms:
            return False
        self.dropped += 1
        if self._journal is not None:
            # Its publisher waits for a commit, in which there may be nothing else.
            self._journal.ask()
        return True

    def add(self, properties: bytes, persistent: bool) -> None:
        """A message that was no duplicate was taken in."""
        key = self._key_of(properties)
        if key is None:
            return
        ttl_ms = self.rules.ttl_ms if key.ttl_ms is None else key.ttl_ms
        expires_at_ms = 0 if ttl_ms is None else self._turn.now_ms + ttl_ms
        known = self._entries.pop(key.digest, None)
        # The key of a message that a crash takes away must go with it, or nobody could send it again.
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
        """What the last run left, oldest first."""
        for each in seen:
            self._entries[each.key] = SeenEntry(each.number, each.expires_at_ms, True)
        self._shrink()

    def forget(self) -> None:
        """Its owner is gone, or does not mind duplicates any more."""
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
        """Nothing waits for it: the message does."""

    def _shrink(self) -> None:
        """The oldest go: those there is no room for, and some that are over anyhow."""
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
    """What an owner that had these goes on with by these rules."""
    if rules is None:
        if known is not None:
            known.forget()
        return None
    if known is None:
        return Deduplication(owner, rules, turn, journal, durable)
    known.rules = rules
    return known


def seen_by(exchange: Exchange) -> str:
    """Under which name the store keeps what an exchange has seen."""
    return f"exchange {json.dumps([exchange.vhost, exchange.name])}"


def key_of(properties: Properties, by: KeyBy) -> Key | None:
    """What a message is known by; None: it says nothing, and is never a duplicate."""
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
    """Of fixed size, however long a key a publisher makes up."""
    return blake2b(f"{kind}\0{text}".encode("utf-8", "surrogateescape"), digest_size=16).digest()

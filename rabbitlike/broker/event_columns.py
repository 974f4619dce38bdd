"""What a row of the event log holds: its events, columns and their types, and how packed rows become values.

Never compiled: the numbers here are imported by modules that are. `spark/events.py` says the same for readers; a test
compares the two. Packing (`broker/events.py`) is done per event and must be cheap; unpacking is done in bulk, by the
thread that exports, or for the few rows somebody asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.storage.columns import Codes, Column, Numbers, Texts

if TYPE_CHECKING:
    from rabbitlike.broker.events import Rows

EVENTS: Final = (
    "publish", "route_fail", "enqueue", "deliver", "ack", "nack", "requeue", "expire", "dead_letter", "drop_overflow",
    "confirm",
)  # fmt: skip
(
    PUBLISH, ROUTE_FAIL, ENQUEUE, DELIVER, ACK, NACK, REQUEUE, EXPIRE, DEAD_LETTER, DROP_OVERFLOW, CONFIRM,
) = range(len(EVENTS))  # fmt: skip

#: Why: the reasons of dead letters by their own names, and some more. The first is none.
REASONS: Final = (
    None, "rejected", "expired", "maxlen", "delivery_limit", "retry_timeout", "reject-publish", "refused", "delayed",
    "retry", "auto-ack", "other",
)  # fmt: skip
REASON_CODES: Final = {reason: code for code, reason in enumerate(REASONS)}
REFUSED: Final = REASON_CODES["refused"]
DELAYED: Final = REASON_CODES["delayed"]
RETRY: Final = REASON_CODES["retry"]
AUTO_ACK: Final = REASON_CODES["auto-ack"]
REJECT_PUBLISH: Final = REASON_CODES["reject-publish"]
OTHER: Final = REASON_CODES["other"]

#: Names, types and whether they may be missing, in the order they are written.
SCHEMA: Final = (
    ("seq", "bigint", False),
    ("ts", "timestamp", False),
    ("node", "string", False),
    ("vhost", "string", False),
    ("event", "string", False),
    ("queue", "string", False),
    ("exchange", "string", False),
    ("routing_key", "string", False),
    ("msg_seq", "bigint", False),
    ("message_id", "string", True),
    ("priority", "int", False),
    ("consumer_tag", "string", True),
    ("consumer_group", "string", True),
    ("size", "int", False),
    ("delivery_count", "int", False),
    ("redelivered", "boolean", False),
    ("wait_us", "bigint", True),
    ("proc_us", "bigint", True),
    ("reason", "string", True),
)


def plain(text: str) -> str:
    """Names are octets to AMQP; in files they are UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def columns(rows: Rows, node: str) -> dict[str, Column]:
    """The rows as columns, in the order of SCHEMA. Copies no row; `rows` must not grow any more."""
    count = rows.count
    packed = {name: memoryview(column)[:count] for name, column in rows.columns.items()}
    vhosts = [plain(vhost) for vhost, _ in rows.places]
    queues = [plain(queue) for _, queue in rows.places]
    exchanges = [plain(exchange_of(address)) for address in rows.addresses]
    keys = [plain(routing_key_of(address)) for address in rows.addresses]
    tags: list[str | None] = [None, *(plain(tag) for tag in rows.tags)]
    return {
        "seq": Numbers(range(rows.first_seq, rows.first_seq + count)),
        "ts": Numbers(packed["ts_ms"], scale=1000),
        "node": Codes(None, [node]),
        "vhost": Codes(packed["place"], vhosts),
        "event": Codes(packed["event"], EVENTS),
        "queue": Codes(packed["place"], queues),
        "exchange": Codes(packed["address"], exchanges),
        "routing_key": Codes(packed["address"], keys),
        "msg_seq": Numbers(packed["position"]),
        "message_id": Texts(packed["id_end"], rows.ids),
        "priority": Numbers(packed["priority"]),
        "consumer_tag": Codes(packed["tag"], tags),
        "consumer_group": Codes(None, [None]),
        "size": Numbers(packed["size"]),
        "delivery_count": Numbers(packed["attempts"]),
        "redelivered": Numbers(packed["attempts"]),
        "wait_us": Numbers(packed["wait_ms"], scale=1000, none_below=0),
        "proc_us": Numbers(packed["proc_ms"], scale=1000, none_below=0),
        "reason": Codes(packed["reason"], REASONS),
    }

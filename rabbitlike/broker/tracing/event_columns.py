"""The columns of the event log: events, names and types, and how packed rows become values.

Never compiled, because compiled modules import its numbers. `spark/events.py` has the same definitions for readers; a
test compares the two. Packing (`broker/tracing/events.py`) happens per event and must be cheap; unpacking happens in
bulk, in the exporting thread, or for the few rows of a search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rabbitlike.broker.message import exchange_of, routing_key_of
from rabbitlike.storage.columns import CELLS, Codes, Column, Numbers, Packed, Some, Texts, Times

if TYPE_CHECKING:
    from rabbitlike.broker.tracing.events import Rows

EVENTS: Final = (
    "publish", "route_fail", "enqueue", "deliver", "ack", "nack", "requeue", "expire", "dead_letter", "drop_overflow",
    "confirm",
)  # fmt: skip
(
    PUBLISH, ROUTE_FAIL, ENQUEUE, DELIVER, ACK, NACK, REQUEUE, EXPIRE, DEAD_LETTER, DROP_OVERFLOW, CONFIRM,
) = range(len(EVENTS))  # fmt: skip

#: The column reason: the reasons of dead letters under their own names, and some more. The first means none.
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

#: The highest value of delivery_count in a row.
MOST_ATTEMPTS: Final = 0xFFFFFF

# What a row has beside its time and message id: one line of cells, because memory is its main cost. Values that repeat
# from message to message (event, reason, priority, attempts, place) form a step, and the row has only its number.
POSITION, TOOK_MS, ADDRESS_SIZE, STEP_TAG = range(CELLS)
#: The same as fields of `Packed`.
ADDRESS, SIZE, STEP, TAG = range(2, 6)


class Step(NamedTuple):
    """The parts of a step's key."""

    event: int
    reason: int
    priority: int
    attempts: int
    place: int


def read_step(key: int) -> Step:
    return Step(key & 15, key >> 4 & 15, key >> 8 & 255, key >> 16 & MOST_ATTEMPTS, key >> 40)


#: Names, types and whether they are nullable, in file order.
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
    """Return a name as valid UTF-8 for files; in AMQP, names are octets."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def columns(rows: Rows, node: str) -> dict[str, Column]:
    """Return the rows as columns, in the order of SCHEMA. Copies no row; `rows` must not grow any more."""
    count = rows.count
    cells = memoryview(rows.cells)[: count * CELLS]
    step, address = Packed(cells, STEP), Packed(cells, ADDRESS)
    took_ms = Packed(cells, TOOK_MS)
    steps = [read_step(key) for key in rows.steps]
    places = [rows.places[each.place] for each in steps]
    tags = [None, *(plain(name) for name in rows.tags)]
    return {
        "seq": Numbers(range(rows.first_seq, rows.first_seq + count)),
        "ts": Times(rows.time_starts, rows.times_ms, 1000),
        "node": Codes(None, [node]),
        "vhost": Codes(step, [plain(vhost) for vhost, _ in places]),
        "event": Codes(step, [EVENTS[each.event] for each in steps]),
        "queue": Codes(step, [plain(queue) for _, queue in places]),
        "exchange": Codes(address, [plain(exchange_of(each)) for each in rows.addresses]),
        "routing_key": Codes(address, [plain(routing_key_of(each)) for each in rows.addresses]),
        "msg_seq": Numbers(Packed(cells, POSITION)),
        "message_id": Texts(rows.id_ends(), rows.ids),
        "priority": Codes(step, [each.priority for each in steps]),
        "consumer_tag": Codes(Packed(cells, TAG), tags),
        "consumer_group": Codes(None, [None]),
        "size": Numbers(Packed(cells, SIZE)),
        "delivery_count": Codes(step, [each.attempts for each in steps]),
        "redelivered": Codes(step, [each.attempts > 0 for each in steps]),
        "wait_us": Some(took_ms, step, [each.event == DELIVER for each in steps], 1000),
        "proc_us": Some(took_ms, step, [each.event in (ACK, NACK) for each in steps], 1000),
        "reason": Codes(step, [REASONS[each.reason] for each in steps]),
    }

"""The schema of the broker's event log: one row per event of a message, as in the files of `event_log`.

Plain data, importable without Spark and without the broker; a test compares it with the broker's own columns.
"""

from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column; `kind` is Spark's name of the type."""

    name: str
    kind: str
    is_nullable: bool = False


#: All kinds of events.
EVENTS: Final = (
    "publish", "route_fail", "enqueue", "deliver", "ack", "nack", "requeue", "expire", "dead_letter", "drop_overflow",
    "confirm",
)  # fmt: skip

COLUMNS: Final = (
    Column("seq", "bigint"),
    Column("ts", "timestamp"),
    Column("node", "string"),
    Column("vhost", "string"),
    Column("event", "string"),
    Column("queue", "string"),
    Column("exchange", "string"),
    Column("routing_key", "string"),
    Column("msg_seq", "bigint"),
    Column("message_id", "string", is_nullable=True),
    Column("priority", "int"),
    Column("consumer_tag", "string", is_nullable=True),
    Column("consumer_group", "string", is_nullable=True),
    Column("size", "int"),
    Column("delivery_count", "int"),
    Column("redelivered", "boolean"),
    Column("wait_us", "bigint", is_nullable=True),
    Column("proc_us", "bigint", is_nullable=True),
    Column("reason", "string", is_nullable=True),
)

#: For `spark.read.schema(…)`. All columns are nullable for readers, because files may not meet the schema.
DDL: Final = ", ".join(f"{column.name} {column.kind}" for column in COLUMNS)

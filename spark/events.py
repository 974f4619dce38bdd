"""The broker's event log as data: one row per step in a message's life, as the files of `event_log` hold it.

Plain data, importable without Spark and without the broker; a test keeps it and the broker's own columns the same.
"""

from typing import Final, NamedTuple


class Column(NamedTuple):
    """One column; `kind` is Spark's word for its type."""

    name: str
    kind: str
    is_nullable: bool = False


#: What can happen to a message.
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

#: For `spark.read.schema(…)`. All columns may be null to a reader: files are not trusted to keep their word.
DDL: Final = ", ".join(f"{column.name} {column.kind}" for column in COLUMNS)

"""Spark data sources and jobs; they connect to the broker as ordinary AMQP clients.

`AmqpDataSource` is imported on first use, because parts of this package work without Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rabbitlike.spark.source import AmqpDataSource

__all__ = ["AmqpDataSource"]


def __getattr__(name: str) -> object:
    if name != "AmqpDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rabbitlike.spark.source import AmqpDataSource

    return AmqpDataSource

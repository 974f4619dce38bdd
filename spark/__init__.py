"""Spark data sources and jobs that speak to the broker as any client does.

`AmqpDataSource` is found here when it is asked for, not before: parts of this package are of use without Spark.
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

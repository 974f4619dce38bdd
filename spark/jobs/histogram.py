"""Times as counts in logarithmic buckets; counts from any source and period can be added.

Four buckets to a doubling: bucket ``b`` holds the times from ``2**(b/4) - 1`` to just below ``2**((b+1)/4) - 1``
microseconds. A percentile is read as the middle of a bucket, which is off by less than ``ERROR`` of the time.
Importable without Spark: tests compare the expressions for Spark with `bucket_of` and `percentile`.
"""

from collections.abc import Mapping
from math import ceil, floor, log2
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

PER_DOUBLING: Final = 4
#: Largest error of a percentile, as a share of the true time: half a bucket.
ERROR: Final = 2 ** (0.5 / PER_DOUBLING) - 1

PERCENTILES: Final = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def bucket_of(time_us: int) -> int:
    """Return the bucket that counts this time."""
    return floor(log2(time_us + 1) * PER_DOUBLING)


def middle_us(bucket: int) -> int:
    """Return the time that represents a bucket: its geometric middle."""
    return round(2 ** ((bucket + 0.5) / PER_DOUBLING) - 1) if bucket > 0 else 0


def percentile(counts: Mapping[int, int], part: float, longest_us: int) -> int | None:
    """Return the time within which this share of all finished, at most `longest_us`; None if there are no counts."""
    total = sum(counts.values())
    if not total:
        return None
    rank, seen = max(1, ceil(part * total)), 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return min(middle_us(bucket), longest_us)
    raise AssertionError("a rank is never above the total")


def bucket_column(time_us: "Column") -> "Column":
    """Return `bucket_of` as a Spark expression; null for null."""
    from pyspark.sql import functions as f

    return f.floor(f.log2(time_us + f.lit(1)) * f.lit(PER_DOUBLING)).cast("int")

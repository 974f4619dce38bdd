"""Times as counts in buckets of a logarithmic scale: they can be added up, whoever counted them and whenever.

Four buckets to a doubling: bucket ``b`` holds the times from ``2**(b/4) - 1`` to just below ``2**((b+1)/4) - 1``
microseconds. A percentile read from them is the middle of a bucket, which is off by less than ``ERROR`` of the time.
Importable without Spark: `bucket_of` and `percentile` are what the expressions for Spark are held against.
"""

from collections.abc import Mapping
from math import ceil, floor, log2
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

PER_DOUBLING: Final = 4
#: How far off a percentile may be, as a part of the true time: half a bucket.
ERROR: Final = 2 ** (0.5 / PER_DOUBLING) - 1

PERCENTILES: Final = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def bucket_of(time_us: int) -> int:
    """The bucket that counts this time."""
    return floor(log2(time_us + 1) * PER_DOUBLING)


def middle_us(bucket: int) -> int:
    """The time that stands for all in a bucket: as far from its beginning as from its end, in proportion."""
    return round(2 ** ((bucket + 0.5) / PER_DOUBLING) - 1) if bucket > 0 else 0


def percentile(counts: Mapping[int, int], part: float, longest_us: int) -> int | None:
    """The time within which this part of all were done; never more than the longest. None: there are none."""
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
    """`bucket_of` for Spark; null for null."""
    from pyspark.sql import functions as f

    return f.floor(f.log2(time_us + f.lit(1)) * f.lit(PER_DOUBLING)).cast("int")

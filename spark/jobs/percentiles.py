"""Histograms as lists of numbers, one per bucket and count, and the percentiles read from them.

A list may contain a bucket several times and in any order: concatenation adds two lists. Python reads them, a column at
a time: Spark interprets an expression for every list element, which took ten times as long.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from math import ceil
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import IntegerType, LongType, MapType, StructField, StructType

from rabbitlike.spark.jobs.histogram import PERCENTILES, middle_us

#: Bits of the count, below the bucket.
_BITS: Final = 40
_COUNT: Final = (1 << _BITS) - 1
#: A bucket and its count as one number, in SQL.
ENTRY: Final = f"shiftleft(bigint(bucket), {_BITS}) + n"
#: Return types of the functions below. Spark's stubs only accept strings, which need a session to be parsed.
_TIMES: Final = StructType([StructField(f"{name}_us", LongType()) for name in PERCENTILES])
_COUNTS: Final = MapType(IntegerType(), LongType())


def _percentiles(entries: list[int]) -> Iterator[int]:
    entries.sort()
    within = list(accumulate(entry & _COUNT for entry in entries))
    for part in PERCENTILES.values():
        rank = max(1, ceil(part * within[-1]))
        yield middle_us(entries[bisect_left(within, rank)] >> _BITS)


def _counts(entries: list[int]) -> list[tuple[int, int]]:
    counts: dict[int, int] = {}
    for entry in sorted(entries):
        bucket = entry >> _BITS
        counts[bucket] = counts.get(bucket, 0) + (entry & _COUNT)
    return list(counts.items())


@arrow_udf(_TIMES)  # type: ignore[call-overload,untyped-decorator]
def percentiles(entries: pa.Array) -> pa.Array:
    """Return percentiles as the middle of their buckets; null if the list is empty."""
    found = [tuple(_percentiles(each)) if each else None for each in entries.to_pylist()]
    return pa.array(found, pa.struct([(name, pa.int64()) for name in _TIMES.names]))


@arrow_udf(_COUNTS)  # type: ignore[call-overload,untyped-decorator]
def histogram(entries: pa.Array) -> pa.Array:
    """Return counts by bucket, lowest first."""
    return pa.array([_counts(each) for each in entries.to_pylist()], pa.map_(pa.int32(), pa.int64()))

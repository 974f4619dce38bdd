"""Parquet files: whatever is written is what pyarrow reads."""

import io
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rabbitlike.storage.columns import Codes, Column, Numbers, Texts
from rabbitlike.storage.event_files import values
from rabbitlike.storage.parquet import Parquet

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SCHEMA = (
    ("seq", "bigint", False),
    ("at", "timestamp", False),
    ("word", "string", False),
    ("small_word", "string", True),
    ("far", "bigint", False),
    ("near", "int", False),
    ("maybe", "bigint", True),
    ("truth", "boolean", False),
    ("id", "string", True),
)
FAR = st.integers(-(1 << 61), 1 << 61)


def zstd(octets: bytes) -> bytes:
    return bytes(pyarrow.Codec("zstd").compress(octets, asbytes=True))


def view(kind: str, numbers: list[int]) -> memoryview:
    return memoryview(array(kind, numbers))


def texts(words: list[bytes]) -> Texts:
    ends = array("i")
    for word in words:
        ends.append((ends[-1] if ends else 0) + len(word))
    return Texts(memoryview(ends), bytearray(b"".join(words)))


def read(file: Parquet, columns: dict[str, Column], count: int) -> Any:
    return parquet.ParquetFile(io.BytesIO(b"".join(file.file(columns, count)))).read()


def expected(name: str, kind: str, column: Column, count: int) -> Iterator[object]:
    for value in values(column, count):
        yield bool(value) if kind == "boolean" else value


def check(file: Parquet, columns: dict[str, Column], count: int) -> None:
    table = read(file, columns, count)
    assert table.num_rows == count
    for name, kind, _ in SCHEMA:
        found = table.column(name)
        found = found.cast(pyarrow.int64()) if kind == "timestamp" else found
        assert found.to_pylist() == list(expected(name, kind, columns[name], count)), name


def rows(count: int) -> st.SearchStrategy[dict[str, Column]]:
    """Columns of so many rows, each now and then the same all the way down."""

    def run(of: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
        return st.lists(of, min_size=count, max_size=count) | of.map(lambda number: [number] * count)

    def words(least: int, most: int) -> st.SearchStrategy[list[str]]:
        return st.lists(st.text(max_size=3), min_size=least, max_size=most)

    codes = run(st.integers(0, 5)).map(lambda numbers: view("i", numbers))
    small = run(st.integers(0, 3)).map(lambda numbers: view("b", numbers))
    far = run(FAR).map(lambda numbers: Numbers(view("q", numbers)))
    close = run(st.integers(0, (1 << 31) - 1)).map(lambda numbers: Numbers(view("i", numbers)))
    octets = st.binary(max_size=4) | st.text(max_size=3).map(str.encode) | st.just(b"")
    return st.fixed_dictionaries(
        {
            "seq": st.integers(0, 1 << 60).map(lambda first: Numbers(range(first, first + count))),
            "at": run(st.integers(0, 1 << 45)).map(lambda numbers: Numbers(view("q", sorted(numbers)), 1000)),
            "word": st.builds(Codes, codes | st.none(), words(6, 40)),
            "small_word": st.builds(Codes, small, words(3, 3).map(lambda some: [None, *some]))
            | st.just(Codes(None, [None])),
            "far": far,
            "near": close,
            "maybe": run(st.integers(-3, 9)).map(lambda numbers: Numbers(view("q", numbers), 1000, 0)),
            "truth": run(st.integers(0, 2)).map(lambda numbers: Numbers(view("i", numbers))),
            "id": st.lists(octets, min_size=count, max_size=count).map(texts) | st.builds(lambda: texts([b""] * count)),
        }
    )


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 300).flatmap(lambda count: st.tuples(st.just(count), rows(count))), st.data())
def test_what_is_written_is_read(first: tuple[int, dict[str, Column]], data: st.DataObject) -> None:
    """G18 also by one that has written another file before."""
    file = Parquet(SCHEMA, zstd)
    check(file, first[1], first[0])
    count = data.draw(st.integers(1, 40))
    check(file, data.draw(rows(count)), count)


def test_many_rows_and_words() -> None:
    count = 10_007
    step = 2_654_435_761
    columns: dict[str, Column] = {
        "seq": Numbers(range(7, 7 + count)),
        "at": Numbers(view("q", [number // 300 for number in range(count)]), 1000),
        "word": Codes(view("i", [number * step % 3000 for number in range(count)]), [f"w{n}" for n in range(3000)]),
        "small_word": Codes(view("b", [number % 2 for number in range(count)]), [None, "x"]),
        "far": Numbers(view("q", [number * step * (-1) ** number for number in range(count)])),
        "near": Numbers(view("i", [number % 5000 for number in range(count)])),
        "maybe": Numbers(view("q", [number % 7 - 4 for number in range(count)]), 1000, 0),
        "truth": Numbers(view("i", [number % 3 for number in range(count)])),
        "id": texts([f"id-{number}".encode() * (number % 2) for number in range(count)]),
    }
    file = Parquet(SCHEMA, zstd)
    check(file, columns, count)
    about = parquet.ParquetFile(io.BytesIO(b"".join(file.file(columns, count)))).metadata.row_group(0)
    assert [about.column(number).compression for number in (0, 2)] == ["UNCOMPRESSED", "ZSTD"], "where it is worth it"
    assert (about.column(0).statistics.min, about.column(0).statistics.max) == (7, 6 + count)
    assert about.column(1).statistics.max.timestamp() == (count - 1) // 300 / 1000
    assert about.total_byte_size < 300_000

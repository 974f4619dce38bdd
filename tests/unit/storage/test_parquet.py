"""Parquet files: whatever is written is what pyarrow reads."""

import io
from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rabbitlike.storage import native
from rabbitlike.storage.columns import (
    CELLS,
    Codes,
    Column,
    Numbers,
    Packed,
    Some,
    Texts,
    Times,
    values,
)
from rabbitlike.storage.parquet import Parquet

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SCHEMA = (
    ("seq", "bigint", False),
    ("at", "timestamp", False),
    ("word", "string", False),
    ("some_word", "string", True),
    ("few", "int", False),
    ("truth", "boolean", False),
    ("far", "bigint", False),
    ("near", "int", False),
    ("maybe", "bigint", True),
    ("id", "string", True),
)
FAR = st.integers(-(1 << 61), 1 << 61)
Columns = dict[str, Column]


def zstd(octets: bytes) -> bytes:
    return bytes(pyarrow.Codec("zstd").compress(octets, asbytes=True))


def texts(words: list[bytes]) -> Texts:
    ends = array("i")
    for word in words:
        ends.append((ends[-1] if ends else 0) + len(word))
    return Texts(memoryview(ends), bytearray(b"".join(words)))


def pack(rows: list[tuple[int, int, int, int, int, int]]) -> memoryview:
    """Two whole numbers, and four of half a cell."""
    cells = array("q")
    for one, two, *halves in rows:
        cells.extend((one, two, halves[0] << 32 | halves[1], halves[2] << 32 | halves[3]))
    return memoryview(cells)


def make_columns(cells: memoryview, words: list[str], changes: dict[int, int], ids: list[bytes]) -> Columns:
    """Codes are below five; halves are code, size, code, code."""
    count = len(cells) // CELLS
    code, other = Packed(cells, 2), Packed(cells, 5)
    starts = sorted({0, *(place for place in changes if place < count)})
    times = sorted(changes.values())[-len(starts) :]
    return {
        "seq": Numbers(range(7, 7 + count)),
        "at": Times(starts, [*[0] * (len(starts) - len(times)), *times], 1000),
        "word": Codes(code, words[:5]),
        "some_word": Codes(other, [None, *words[:2], None, words[1]]) if words[0] else Codes(None, [None]),
        "few": Codes(code, [0, 0, 255, 1 << 24, len(words[1])]),
        "truth": Codes(other, [False, words[2] == "", True, False, False]),
        "far": Numbers(Packed(cells, 0)),
        "near": Numbers(Packed(cells, 3)),
        "maybe": Some(Packed(cells, 1), Packed(cells, 4), [bool(word) for word in words[:5]], 1000),
        "id": texts(ids),
    }


def check(file: Parquet, columns: Columns, count: int) -> None:
    table = parquet.ParquetFile(io.BytesIO(b"".join(file.file(columns, count)))).read()
    assert table.num_rows == count
    for name, kind, _ in SCHEMA:
        found = table.column(name)
        found = found.cast(pyarrow.int64()) if kind == "timestamp" else found
        assert found.to_pylist() == list(values(columns[name], count)), name


@st.composite
def some_columns(draw: st.DrawFn) -> Columns:
    """Each now and then the same all the way down."""
    count = draw(st.integers(1, 300))

    def run(of: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(of, min_size=count, max_size=count) | of.map(lambda number: [number] * count))

    codes = st.integers(0, 4)
    # Also of numbers that hardly differ.
    far = draw(st.sampled_from((FAR, st.integers(0, 1))))
    near = draw(st.sampled_from((st.integers(0, (1 << 31) - 1), st.integers(7, 8))))
    fields = [run(far), run(st.integers(-2, 9)), run(codes), run(near), run(codes), run(codes)]
    octets = st.binary(max_size=4) | st.text(max_size=3).map(str.encode) | st.just(b"")
    words = draw(st.lists(st.text(max_size=3), min_size=5, max_size=5))
    changes = draw(st.dictionaries(st.integers(1, 300), st.integers(0, 1 << 45), max_size=9))
    ids = draw(st.lists(octets, min_size=count, max_size=count) | st.just([b""] * count))
    return make_columns(pack(list(zip(*fields, strict=True))), words, changes, ids)


def count_of(columns: Columns) -> int:
    return len(values(columns["seq"], 0))


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(some_columns(), min_size=1, max_size=3))
def test_what_is_written_is_read(files: list[Columns]) -> None:
    """G18 also by one that has written other files before."""
    file = Parquet(SCHEMA, zstd)
    for columns in files:
        check(file, columns, count_of(columns))


def test_many_rows() -> None:
    count = 10_007
    step = 2_654_435_761
    cells = pack(
        [
            (
                number * step * (-1) ** number,
                number % 7 - 3,
                number % 5,
                number % 5000,
                number // 99 % 5,
                number * step % 5,
            )
            for number in range(count)
        ]
    )
    ids = [f"id-{number}".encode() * (number % 2) for number in range(count)]
    columns = make_columns(cells, ["a", "b", "c", "d", "e"], {300 * n: n for n in range(1, 30)}, ids)
    file = Parquet(SCHEMA, zstd)
    check(file, columns, count)
    about = parquet.ParquetFile(io.BytesIO(b"".join(file.file(columns, count)))).metadata.row_group(0)
    assert [about.column(number).compression for number in (0, 2)] == ["UNCOMPRESSED", "ZSTD"], "where it is worth it"
    assert (about.column(0).statistics.min, about.column(0).statistics.max) == (7, 6 + count)
    assert about.column(1).statistics.max.timestamp() == 0.029
    assert about.total_byte_size < 300_000


def test_many_words() -> None:
    count = 20_000
    cells = pack([(0, 0, number % 3000, 5, 0, 0) for number in range(count)])
    words = Codes(Packed(cells, 2), [f"word {number}" for number in range(3000)])
    file = Parquet([("word", "string", False)], zstd)
    table = parquet.ParquetFile(io.BytesIO(b"".join(file.file({"word": words}, count)))).read()
    assert table.column("word").to_pylist() == [f"word {number % 3000}" for number in range(count)]


@pytest.mark.parametrize("is_mixed", [True, False], ids=["", "that all look alike to the pure build"])
def test_texts_that_come_again_are_written_once(is_mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_mixed:
        monkeypatch.setattr(native, "mix", lambda octets, start, size: -1)
    count = 20_000
    ids = [f"{number * number % 701:036}".encode() * (number % 5 != 4) for number in range(count)]
    column = texts(ids)
    column.octets.extend(b"\xff" * 100)  # of what stood there before
    file = b"".join(Parquet([("id", "string", True)], zstd).file({"id": column}, count))
    read = parquet.ParquetFile(io.BytesIO(file))
    assert read.read().column("id").to_pylist() == [each.decode() or None for each in ids]
    if is_mixed:
        assert read.metadata.row_group(0).column(0).total_uncompressed_size < 701 * 40 + count * (1 + 10) / 8 + 200

"""Writes columns as a Parquet file: one row group, one page per column, and a dictionary page for columns with few
words.

Our own writer, because of its cost: rows come packed with numbered words, and most columns are constant, which takes no
loop over rows. A library takes ten times as long for the same input. It uses only features that readers know since
Parquet 1.0, and delta encoding; tests read everything back with pyarrow and Spark.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from struct import pack as pack_struct
from typing import Final, NamedTuple

from rabbitlike.storage import encodings
from rabbitlike.storage.columns import Codes, Column, Packed, Some, Texts, Times
from rabbitlike.storage.thrift import Long, Octets, struct, varint

MAGIC: Final = b"PAR1"
Schema = Sequence[tuple[str, str, bool]]
Compress = Callable[[bytes], bytes]

# Constants of the format. spec: parquet.thrift
BOOLEAN, INT32, INT64, BYTE_ARRAY = 0, 1, 2, 6
PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8
DATA_PAGE, DICTIONARY_PAGE = 0, 2
UNCOMPRESSED, ZSTD = 0, 6
UTF8, TIMESTAMP_MICROS = 0, 10
#: Physical and logical type by our name of a column's type.
KINDS: Final = {
    "bigint": (INT64, None),
    "int": (INT32, None),
    "boolean": (BOOLEAN, None),
    "string": (BYTE_ARRAY, UTF8),
    "timestamp": (INT64, TIMESTAMP_MICROS),
}
#: Smaller pages are not compressed.
LEAST_BYTES: Final = 512


class Page(NamedTuple):
    """The values of a column, uncompressed."""

    octets: bytes
    encoding: int
    #: The number of words in the dictionary, and the dictionary.
    words: int = 0
    dictionary: bytes = b""
    #: Minimum and maximum, packed.
    bounds: tuple[bytes, bytes] | None = None


class Parquet:
    """Makes files of one schema in succession, reusing the memory."""

    def __init__(self, schema: Schema, compress: Compress) -> None:
        self._schema = schema
        fields = [_field(*field) for field in schema]
        self._fields = [struct((4, Octets(b"schema")), (5, len(fields))), *fields]
        #: Compresses with zstd.
        self._compress = compress
        self._encoder = _Encoder(0)

    def file(self, columns: Mapping[str, Column], count: int) -> list[bytes]:
        """The octets of a file of `count` rows, in pieces."""
        if not self._encoder.fits(count):
            self._encoder = _Encoder(count)
        self._encoder.begin(count)
        pieces, chunks, at = [MAGIC], [], len(MAGIC)
        for name, kind, nullable in self._schema:
            written, chunk = self._chunk(name, kind, self._encoder.encode(columns[name], kind, nullable), count, at)
            pieces += written
            chunks.append(chunk)
            at += sum(map(len, written))
        footer = struct(
            (1, 2),
            (2, self._fields),
            (3, Long(count)),
            (4, [struct((1, chunks), (2, Long(at - len(MAGIC))), (3, Long(count)))]),
            (6, Octets(b"rabbitlike")),
            (7, [struct((1, struct()))] * len(chunks)),  # bounds are in the order of the type
        )
        return [*pieces, footer, pack_struct("<I", len(footer)), MAGIC]

    def _chunk(self, name: str, kind: str, page: Page, count: int, at: int) -> tuple[list[bytes], bytes]:
        """A column chunk for offset `at` of the file, and its metadata for the footer."""
        codec = ZSTD if len(page.octets) + len(page.dictionary) >= LEAST_BYTES else UNCOMPRESSED
        squeeze = self._compress if codec == ZSTD else bytes
        written: list[bytes] = []
        if page.words:
            squeezed = squeeze(page.dictionary)
            head = struct((1, page.words), (2, PLAIN))
            written += [_page_header(DICTIONARY_PAGE, page.dictionary, squeezed, 7, head), squeezed]
        data_at = at + sum(map(len, written))
        squeezed = squeeze(page.octets)
        head = struct((1, count), (2, page.encoding), (3, RLE), (4, RLE))
        written += [_page_header(DATA_PAGE, page.octets, squeezed, 5, head), squeezed]
        heads = sum(map(len, written[::2]))
        about = struct(
            (1, KINDS[kind][0]),
            (2, [PLAIN, RLE, page.encoding]),
            (3, [Octets(name.encode())]),
            (4, codec),
            (5, Long(count)),
            (6, Long(heads + len(page.dictionary) + len(page.octets))),
            (7, Long(heads + sum(map(len, written[1::2])))),
            (9, Long(data_at)),
            (11, Long(at) if page.words else None),
            (12, None if page.bounds is None else struct((5, Octets(page.bounds[1])), (6, Octets(page.bounds[0])))),
        )
        return written, struct((2, Long(at)), (3, about))


class _Encoder:
    """Encodes the columns of successive files as pages."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._count = capacity
        whole = [memoryview(array("q", bytes(8 * capacity))) for _ in range(3)]
        halves = [memoryview(array("i", bytes(4 * capacity))) for _ in range(4)]
        self._present = whole[2]
        #: The numbers of all rows, by their field in `Packed`, and a bit for each field that is not constant.
        self._fields = [whole[0], whole[1], *halves]
        self._differ = 0
        self._split_of: memoryview | None = None
        # Numbers take at most eight octets, plus a few octets for each block of 128.
        self._out = bytearray(10 * capacity + 4096)

    def fits(self, count: int) -> bool:
        return count <= self._capacity

    def begin(self, count: int) -> None:
        """Begin a file of this many rows."""
        self._count = count
        self._split_of = None

    def encode(self, column: Column, kind: str, nullable: bool) -> Page:
        if isinstance(column, Codes):
            return self._truths(column) if kind == "boolean" else self._words(column, nullable)
        if isinstance(column, Texts):
            return self._texts(column)
        if isinstance(column, Some):
            return self._some(column)
        if isinstance(column, Times):
            return self._times(column)
        if isinstance(column.values, range):
            return self._range(column.values)
        return self._whole(column.values, "<i" if kind == "int" else "<q")

    def _numbers(self, packed: Packed) -> tuple[memoryview, bool]:
        """The numbers of all rows, and whether they are all the same."""
        if self._split_of is not packed.cells:
            self._split_of = packed.cells
            self._differ = encodings.split(packed.cells, self._count, *self._fields)
        return self._fields[packed.field], not self._differ >> packed.field & 1

    # Words

    def _words(self, column: Codes, nullable: bool) -> Page:
        """A dictionary of the words, and the index of each row."""
        numbers: dict[str | int, int] = {}
        table = array("i", (-1 if word is None else numbers.setdefault(word, len(numbers)) for word in column.words))
        dictionary = b"".join([_plain(word) for word in numbers])
        only = table[0] if column.codes is None or len(set(table)) == 1 else None
        if only is None and column.codes is not None:
            codes, same = self._numbers(column.codes)
            only = table[codes[0]] if same else None
        if only is not None:
            levels = self._same_levels(only >= 0) if nullable else b""
            if only < 0:
                return Page(levels, PLAIN)
            return Page(levels + _only(only, len(numbers), self._count), DICTIONARY, len(numbers), dictionary)
        return self._numbered(codes, memoryview(table), len(numbers), dictionary, nullable)

    def _numbered(self, codes: memoryview, table: memoryview, words: int, dictionary: bytes, nullable: bool) -> Page:
        bits = self._bits()
        width = _width(words)
        present = encodings.words(codes, self._count, table, width, self._out, bits)
        levels = self._levels(bits, present) if nullable else b""
        if present == 0:
            return Page(levels, PLAIN)
        groups = -(-present // 8)
        head = bytes((width,)) + varint(groups << 1 | 1)
        return Page(levels + head + self._written(groups * width), DICTIONARY, words, dictionary)

    def _truths(self, column: Codes) -> Page:
        """One bit per row."""
        table = array("i", (0 if word else -1 for word in column.words))
        bits = self._bits()
        if column.codes is None or len(set(table)) == 1:
            return Page(bytes(bits) if table[0] < 0 else b"\xff" * len(bits), PLAIN)
        encodings.words(self._numbers(column.codes)[0], self._count, memoryview(table), 0, self._out, bits)
        return Page(bytes(bits), PLAIN)

    # Numbers

    def _range(self, values: range) -> Page:
        end = encodings.count_up(values[0], self._count, self._out)
        return Page(self._written(end), DELTA, bounds=(_long(values[0]), _long(values[-1])))

    def _whole(self, packed: Packed, layout: str) -> Page:
        numbers, same = self._numbers(packed)
        if same:
            return Page(_only(0, 1, self._count), DICTIONARY, 1, pack_struct(layout, numbers[0]))
        if numbers.itemsize == 4:
            encodings.widen(numbers, self._count, self._present)
            numbers = self._present
        return Page(self._written(encodings.grow(numbers, self._count, self._out)), DELTA)

    def _times(self, column: Times) -> Page:
        starts, values = (memoryview(array("q", each)) for each in (column.starts, column.values))
        encodings.spread(starts, values, column.scale, self._count, self._present)
        bounds = (_long(self._present[0]), _long(self._present[self._count - 1]))
        return Page(self._written(encodings.grow(self._present, self._count, self._out)), DELTA, bounds=bounds)

    def _some(self, column: Some) -> Page:
        if not any(column.marks):
            return Page(self._same_levels(False), PLAIN)
        marks = memoryview(array("i", column.marks))
        codes, numbers = self._numbers(column.codes)[0], self._numbers(column.values)[0]
        bits = self._bits()
        present = encodings.take(numbers, codes, self._count, marks, column.scale, self._present, bits)
        levels = self._levels(bits, present)
        if present == 0:
            return Page(levels, PLAIN)
        return Page(levels + self._written(encodings.grow(self._present, present, self._out)), DELTA)

    # Texts

    def _texts(self, column: Texts) -> Page:
        """Texts, encoded with a dictionary, because most of them repeat."""
        ends, count = column.ends, self._count
        if ends[-1] == 0:
            return Page(self._same_levels(False), PLAIN)
        octets = column.octets[: ends[-1]]
        if not octets.isascii():
            ends, octets = readable(ends, octets)
        sizes = (1 << count.bit_length(), count, count + 1)
        slots, codes, table = (memoryview(array("i", bytes(4 * size))) for size in sizes)
        dictionary = bytearray(len(octets) + 4 * count)
        words, end = encodings.number(ends, octets, slots, codes, table, dictionary)
        return self._numbered(codes, table, words, bytes(memoryview(dictionary)[:end]), True)

    def _written(self, end: int) -> bytes:
        return bytes(memoryview(self._out)[:end])

    # Definition levels

    def _bits(self) -> bytearray:
        return bytearray(-(-self._count // 8))

    def _levels(self, bits: bytearray, present: int) -> bytes:
        return self._same_levels(present > 0) if present in (0, self._count) else self._level_run(bits)

    def _level_run(self, bits: bytearray) -> bytes:
        run = varint(len(bits) << 1 | 1) + bits
        return pack_struct("<I", len(run)) + run

    def _same_levels(self, has: bool) -> bytes:
        run = varint(self._count << 1) + bytes((has,))
        return pack_struct("<I", len(run)) + run


def readable(ends: memoryview, octets: bytearray) -> tuple[memoryview, bytearray]:
    """Convert texts to valid UTF-8, replacing invalid octets."""
    found, places, start = bytearray(), array("i"), 0
    for end in ends:
        found += octets[start:end].decode("utf-8", "replace").encode()
        places.append(len(found))
        start = end
    return memoryview(places), found


def _plain(word: str | int) -> bytes:
    if isinstance(word, int):
        return pack_struct("<i", word)
    octets = word.encode()
    return pack_struct("<I", len(octets)) + octets


def _long(number: int) -> bytes:
    return pack_struct("<q", number)


def _only(number: int, words: int, count: int) -> bytes:
    """The same word in all rows; rows without a value are not stored."""
    width = _width(words)
    return bytes((width,)) + varint(count << 1) + number.to_bytes(-(-width // 8), "little")


def _width(words: int) -> int:
    return max(words - 1, 1).bit_length()


def _field(name: str, kind: str, nullable: bool) -> bytes:
    physical, meaning = KINDS[kind]
    return struct((1, physical), (3, int(nullable)), (4, Octets(name.encode())), (6, meaning))


def _page_header(kind: int, octets: bytes, squeezed: bytes, number: int, head: bytes) -> bytes:
    return struct((1, kind), (2, len(octets)), (3, len(squeezed)), (number, head))

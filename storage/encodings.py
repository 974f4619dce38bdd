"""How Parquet packs columns: which rows have a value, words by their numbers, whole numbers by what they grow.

Loops over rows, and nothing else: `storage/parquet.py` knows what they are for. A caller gives arrays that are long
enough for all rows; `present` is filled with the values of those that have one, `levels` (all zero before) with a bit
for each of those rows.
"""

from rabbitlike.storage.columns import CELLS

#: Differences that share a smallest one, and those of them that share a width.
_BLOCK = 128
_PART = 32
_PARTS = 4
_LOW = 0xFFFFFFFF


def split(
    cells: memoryview,
    count: int,
    first: memoryview,
    second: memoryview,
    third: memoryview,
    fourth: memoryview,
    fifth: memoryview,
    sixth: memoryview,
) -> int:
    """The numbers of all rows, each kind by itself; a bit for each kind of which not all are the same."""
    place = 0
    differ = 0
    a = cells[0]
    b = cells[1]
    c = cells[2]
    d = cells[3]
    ab = 0
    bb = 0
    cc = 0
    dd = 0
    for at in range(count):
        first[at] = cells[place]
        second[at] = cells[place + 1]
        third[at] = cells[place + 2] >> 32
        fourth[at] = cells[place + 2] & _LOW
        fifth[at] = cells[place + 3] >> 32
        sixth[at] = cells[place + 3] & _LOW
        ab |= cells[place] ^ a
        bb |= cells[place + 1] ^ b
        cc |= cells[place + 2] ^ c
        dd |= cells[place + 3] ^ d
        place += CELLS
    if ab != 0:
        differ |= 1
    if bb != 0:
        differ |= 2
    if cc >> 32 != 0:
        differ |= 4
    if cc & _LOW != 0:
        differ |= 8
    if dd >> 32 != 0:
        differ |= 16
    if dd & _LOW != 0:
        differ |= 32
    return differ


def look_up(codes: memoryview, count: int, table: memoryview, present: memoryview, levels: bytearray) -> int:
    """Numbers of words as `table` has them, -1 for none; how many rows have one."""
    found = 0
    octet = 0
    for at in range(count):
        number = table[codes[at]]
        if number >= 0:
            present[found] = number
            found += 1
            octet |= 1 << (at & 7)
        if at & 7 == 7:
            levels[at >> 3] = octet
            octet = 0
    if octet:
        levels[count >> 3] = octet
    return found


def take(
    values: memoryview,
    codes: memoryview,
    count: int,
    marks: memoryview,
    scale: int,
    present: memoryview,
    levels: bytearray,
) -> int:
    """Numbers from zero on, each times `scale`, of rows whose code is marked; how many there are."""
    found = 0
    octet = 0
    for at in range(count):
        if marks[codes[at]] and values[at] >= 0:
            present[found] = values[at] * scale
            found += 1
            octet |= 1 << (at & 7)
        if at & 7 == 7:
            levels[at >> 3] = octet
            octet = 0
    if octet:
        levels[count >> 3] = octet
    return found


def texts(ends: memoryview, octets: bytearray, out: bytearray, levels: bytearray) -> int:
    """Texts that are not empty, each with its length before it; how many octets that are."""
    end = 0
    start = 0
    for at in range(len(ends)):
        size = ends[at] - start
        if size == 0:
            continue
        levels[at >> 3] |= 1 << (at & 7)
        out[end] = size & 255
        out[end + 1] = size >> 8 & 255
        out[end + 2] = size >> 16 & 255
        out[end + 3] = size >> 24 & 255
        end += 4
        for place in range(start, start + size):
            out[end] = octets[place]
            end += 1
        start += size
    return end


def pack(values: memoryview, start: int, stop: int, width: int, out: bytearray, end: int) -> int:
    """Each of these in so many bits, the lowest first, up to a whole octet; where that ends."""
    octet = 0
    bits = 0
    for at in range(start, stop):
        rest = values[at]
        left = width
        while left > 0:
            # In halves, since eight octets and the bits before them are more than a machine's word holds.
            octet |= (rest & _LOW) << bits
            bits += left if left < 32 else 32
            rest >>= 32
            left -= 32
            while bits >= 8:
                out[end] = octet & 255
                octet >>= 8
                bits -= 8
                end += 1
    if bits > 0:
        out[end] = octet & 255
        end += 1
    return end


def grow(values: memoryview, count: int, out: bytearray, end: int) -> int:
    """At least one number, each as its difference to the one before (DELTA_BINARY_PACKED). `values` is used up, and
    has room for a block more than `count`. Where it ends."""
    last = values[0]
    end = _put_head(out, end, count, last)
    stop = 1
    while stop < count:
        start = stop
        stop = start + _BLOCK if start + _BLOCK < count else count
        least = values[start] - last
        most = least
        for at in range(start, stop):
            difference = values[at] - last
            last = values[at]
            values[at] = difference
            if difference < least:
                least = difference
            if difference > most:
                most = difference
        end = _put_varint(out, end, _zigzag(least))
        if most > least:
            for at in range(start, stop):
                values[at] -= least
            end = _put_block(values, start, stop, out, end)
        else:
            end = _put_none(out, end)
    return end


def widen(numbers: memoryview, count: int, out: memoryview) -> None:
    """The same numbers, in more octets each."""
    for at in range(count):
        out[at] = numbers[at]


def _put_block(values: memoryview, start: int, stop: int, out: bytearray, end: int) -> int:
    """The widths of a block's parts, and these, filled up with zeros."""
    widths = end
    end = _put_none(out, end)
    for at in range(stop, start + _BLOCK):
        values[at] = 0
    for part in range(_PARTS):
        first = start + part * _PART
        if first >= stop:
            break
        seen = 0
        for at in range(first, first + _PART):
            seen |= values[at]
        width = 0
        while seen > 0:
            seen >>= 1
            width += 1
        out[widths + part] = width
        end = pack(values, first, first + _PART, width, out, end)
    return end


def _put_none(out: bytearray, end: int) -> int:
    """No bits for any part of a block: all differences are the same."""
    for at in range(end, end + _PARTS):
        out[at] = 0
    return end + _PARTS


def count_up(first: int, count: int, out: bytearray) -> int:
    """So many numbers from `first` on, as `grow` would put them."""
    end = _put_head(out, 0, count, first)
    at = 1
    while at < count:
        end = _put_varint(out, end, _zigzag(1))
        end = _put_none(out, end)
        at += _BLOCK
    return end


def _put_head(out: bytearray, end: int, count: int, first: int) -> int:
    end = _put_varint(out, end, _BLOCK)
    end = _put_varint(out, end, _PARTS)
    end = _put_varint(out, end, count)
    return _put_varint(out, end, _zigzag(first))


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _put_varint(out: bytearray, end: int, value: int) -> int:
    while value > 127:
        out[end] = value & 127 | 128
        value >>= 7
        end += 1
    out[end] = value
    return end + 1

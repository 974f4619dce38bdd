"""Parquet encodings of columns: definition levels, dictionary indices, and deltas of whole numbers.

Only loops over rows; `storage/parquet.py` uses them. They touch no objects, so that other threads can run Python
meanwhile. The caller passes arrays that are long enough for all rows; `present` receives the values of the rows that
have one, `levels` (initially zero) gets a bit for each of these rows.
"""

from rabbitlike.storage import native
from rabbitlike.storage.columns import CELLS

#: Deltas that share a minimum, and the number of them that share a bit width.
_BLOCK = 128
_PART = 32
_PARTS = 4
_LOW = 0xFFFFFFFF
#: Slots searched for a word before it counts as new.
_LOOKS = 16


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
    """Split the cells of all rows into one array per number; return a bit for each number that is not constant."""
    lock = native.let_go()
    differ = _split(cells, count, first, second, third, fourth, fifth, sixth)
    native.take_back(lock)
    return differ


def words(codes: memoryview, count: int, table: memoryview, width: int, out: bytearray, levels: bytearray) -> int:
    """Encode the indices that `table` gives for the codes (-1: none) in `width` bits each, padded to a whole group of
    eight. Return how many rows have one."""
    lock = native.let_go()
    found = _words(codes, count, table, width, out, levels)
    native.take_back(lock)
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
    """Collect the non-negative numbers, times `scale`, of rows whose code is marked; return how many there are."""
    lock = native.let_go()
    found = _take(values, codes, count, marks, scale, present, levels)
    native.take_back(lock)
    return found


def grow(values: memoryview, count: int, out: bytearray) -> int:
    """Encode at least one number as deltas (DELTA_BINARY_PACKED); return the size in octets."""
    lock = native.let_go()
    end = _grow(values, count, out)
    native.take_back(lock)
    return end


def number(
    ends: memoryview, octets: bytearray, slots: memoryview, codes: memoryview, table: memoryview, out: bytearray
) -> tuple[int, int]:
    """Build a dictionary of texts: write each distinct non-empty text once, after its length. Return the number of
    texts and the octets written. Fills `codes` and `table` for `words`. The number of slots must be a power of two."""
    lock = native.let_go()
    found, end = _number(ends, len(ends), octets, slots, len(slots) - 1, codes, table, out)
    native.take_back(lock)
    return found, end


def widen(numbers: memoryview, count: int, out: memoryview) -> None:
    """Copy numbers to an array of larger items."""
    for at in range(count):
        out[at] = numbers[at]


def spread(starts: memoryview, values: memoryview, scale: int, count: int, out: memoryview) -> None:
    """Fill rows from each start on with its value times `scale`."""
    runs = len(starts)
    for run in range(runs):
        value = values[run] * scale
        for at in range(starts[run], starts[run + 1] if run + 1 < runs else count):
            out[at] = value


def count_up(first: int, count: int, out: bytearray) -> int:
    """Encode ``count`` consecutive numbers from `first` on, as `grow` would."""
    end = _put_head(out, count, first)
    at = 1
    while at < count:
        end = _put_varint(out, end, _zigzag(1))
        end = _put_none(out, end)
        at += _BLOCK
    return end


def _split(
    cells: memoryview,
    count: int,
    first: memoryview,
    second: memoryview,
    third: memoryview,
    fourth: memoryview,
    fifth: memoryview,
    sixth: memoryview,
) -> int:
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


def _words(codes: memoryview, count: int, table: memoryview, width: int, out: bytearray, levels: bytearray) -> int:
    found = 0
    octet = 0
    waiting = 0
    bits = 0
    end = 0
    for at in range(count):
        number = table[codes[at]]
        if number >= 0:
            found += 1
            octet |= 1 << (at & 7)
            waiting |= number << bits
            bits += width
            if bits >= 32:
                native.put_u32(out, end, waiting)
                waiting >>= 32
                bits -= 32
                end += 4
        if at & 7 == 7:
            levels[at >> 3] = octet
            octet = 0
    if octet:
        levels[count >> 3] = octet
    full = (found + 7 >> 3) * width
    while end < full:
        out[end] = waiting & 255
        waiting >>= 8
        end += 1
    return found


def _take(
    values: memoryview,
    codes: memoryview,
    count: int,
    marks: memoryview,
    scale: int,
    present: memoryview,
    levels: bytearray,
) -> int:
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


def _grow(values: memoryview, count: int, out: bytearray) -> int:
    end = _put_head(out, count, values[0])
    stop = 1
    while stop < count:
        start = stop
        stop = start + _BLOCK if start + _BLOCK < count else count
        least = values[start] - values[start - 1]
        most = least
        for at in range(start, stop):
            difference = values[at] - values[at - 1]
            if difference < least:
                least = difference
            if difference > most:
                most = difference
        end = _put_varint(out, end, _zigzag(least))
        end = _put_none(out, end) if most == least else _put_block(values, start, stop, least, out, end)
    return end


def _put_block(values: memoryview, start: int, stop: int, least: int, out: bytearray, end: int) -> int:
    """Write the bit widths of a block's parts, then each delta minus the minimum."""
    widths = end
    end = _put_none(out, end)
    for part in range(_PARTS):
        first = start + part * _PART
        if first >= stop:
            break
        last = first + _PART if first + _PART < stop else stop
        seen = 0
        for at in range(first, last):
            seen |= values[at] - values[at - 1] - least
        width = 0
        while seen > 0:
            seen >>= 1
            width += 1
        out[widths + part] = width
        end = _put_part(values, first, last, least, width, out, end)
    return end


def _put_part(values: memoryview, first: int, last: int, least: int, width: int, out: bytearray, end: int) -> int:
    """Pack each number in ``width`` bits, lowest bits first, padded with zeros."""
    full = end + _PARTS * width
    waiting = 0
    bits = 0
    for at in range(first, last):
        rest = values[at] - values[at - 1] - least
        left = width
        while left > 0:
            # In halves, because eight octets plus the pending bits exceed a machine word.
            waiting |= (rest & _LOW) << bits
            bits += left if left < 32 else 32
            rest >>= 32
            left -= 32
            if bits >= 32:
                native.put_u32(out, end, waiting)
                waiting >>= 32
                bits -= 32
                end += 4
    while end < full:
        out[end] = waiting & 255
        waiting >>= 8
        end += 1
    return end


def _put_none(out: bytearray, end: int) -> int:
    """Write zero widths for all parts of a block: all deltas are equal."""
    for at in range(end, end + _PARTS):
        out[at] = 0
    return end + _PARTS


def _number(
    ends: memoryview,
    count: int,
    octets: bytearray,
    slots: memoryview,
    mask: int,
    codes: memoryview,
    table: memoryview,
    out: bytearray,
) -> tuple[int, int]:
    for slot in range(mask + 1):
        slots[slot] = -1
    table[0] = -1
    found = 0
    end = 0
    start = 0
    for at in range(count):
        size = ends[at] - start
        codes[at] = 0
        if size > 0:
            slot = native.mix(octets, start, size) & mask
            looks = 0
            # A slot holds the row where a word was first seen. A word not found within _LOOKS slots may be written
            # twice.
            while looks < _LOOKS and slots[slot] >= 0:
                row = slots[slot]
                begin = ends[row - 1] if row > 0 else 0
                if ends[row] - begin == size and native.same(octets, begin, start, size):
                    codes[at] = codes[row]
                    break
                slot = slot + 1 & mask
                looks += 1
            if codes[at] == 0:
                slots[slot] = at
                table[found + 1] = found
                found += 1
                codes[at] = found
                native.put_u32(out, end, size)
                native.copy(out, end + 4, octets, start, size)
                end += 4 + size
        start += size
    return found, end


def _put_head(out: bytearray, count: int, first: int) -> int:
    end = _put_varint(out, 0, _BLOCK)
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

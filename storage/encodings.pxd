cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from rabbitlike.storage cimport native

cdef int CELLS
cdef int _BLOCK, _PART, _PARTS, _LOOKS
cdef int64_t _LOW


@cython.locals(lock="void*", differ=int)
cpdef int split(
    int64_t[::1] cells, Py_ssize_t count, int64_t[::1] first, int64_t[::1] second, int32_t[::1] third,
    int32_t[::1] fourth, int32_t[::1] fifth, int32_t[::1] sixth
) except -1

@cython.locals(lock="void*", found=Py_ssize_t)
cpdef Py_ssize_t words(
    int32_t[::1] codes, Py_ssize_t count, int32_t[::1] table, int width, unsigned char[::1] out,
    unsigned char[::1] levels
) except -1

@cython.locals(lock="void*", found=Py_ssize_t)
cpdef Py_ssize_t take(
    int64_t[::1] values, int32_t[::1] codes, Py_ssize_t count, int32_t[::1] marks, int64_t scale,
    int64_t[::1] present, unsigned char[::1] levels
) except -1

@cython.locals(lock="void*", end=Py_ssize_t)
cpdef Py_ssize_t grow(int64_t[::1] values, Py_ssize_t count, unsigned char[::1] out) except -1

@cython.locals(lock="void*", found=Py_ssize_t, end=Py_ssize_t)
cpdef (Py_ssize_t, Py_ssize_t) number(
    int32_t[::1] ends, unsigned char[::1] octets, int32_t[::1] slots, int32_t[::1] codes, int32_t[::1] table,
    unsigned char[::1] out
)

@cython.locals(at=Py_ssize_t)
cpdef object widen(int32_t[::1] numbers, Py_ssize_t count, int64_t[::1] out)

@cython.locals(runs=Py_ssize_t, run=Py_ssize_t, at=Py_ssize_t, value=int64_t)
cpdef object spread(int64_t[::1] starts, int64_t[::1] values, int64_t scale, Py_ssize_t count, int64_t[::1] out)

@cython.locals(end=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t count_up(int64_t first, Py_ssize_t count, unsigned char[::1] out) except -1

@cython.locals(
    place=Py_ssize_t, at=Py_ssize_t, differ=int, a=int64_t, b=int64_t, c=int64_t, d=int64_t, ab=int64_t, bb=int64_t,
    cc=int64_t, dd=int64_t
)
cdef int _split(
    int64_t[::1] cells, Py_ssize_t count, int64_t[::1] first, int64_t[::1] second, int32_t[::1] third,
    int32_t[::1] fourth, int32_t[::1] fifth, int32_t[::1] sixth
) noexcept nogil

@cython.locals(
    found=Py_ssize_t, at=Py_ssize_t, octet=int, number=int64_t, waiting=uint64_t, bits=int, end=Py_ssize_t,
    full=Py_ssize_t
)
cdef Py_ssize_t _words(
    int32_t[::1] codes, Py_ssize_t count, int32_t[::1] table, int width, unsigned char[::1] out,
    unsigned char[::1] levels
) noexcept nogil

@cython.locals(found=Py_ssize_t, at=Py_ssize_t, octet=int)
cdef Py_ssize_t _take(
    int64_t[::1] values, int32_t[::1] codes, Py_ssize_t count, int32_t[::1] marks, int64_t scale,
    int64_t[::1] present, unsigned char[::1] levels
) noexcept nogil

@cython.locals(
    end=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, least=int64_t, most=int64_t, at=Py_ssize_t, difference=int64_t
)
cdef Py_ssize_t _grow(int64_t[::1] values, Py_ssize_t count, unsigned char[::1] out) noexcept nogil

@cython.locals(
    widths=Py_ssize_t, at=Py_ssize_t, part=int, first=Py_ssize_t, last=Py_ssize_t, seen=uint64_t, width=int
)
cdef Py_ssize_t _put_block(
    int64_t[::1] values, Py_ssize_t start, Py_ssize_t stop, int64_t least, unsigned char[::1] out, Py_ssize_t end
) noexcept nogil

@cython.locals(full=Py_ssize_t, waiting=uint64_t, bits=int, at=Py_ssize_t, rest=uint64_t, left=int)
cdef Py_ssize_t _put_part(
    int64_t[::1] values, Py_ssize_t first, Py_ssize_t last, int64_t least, int width, unsigned char[::1] out,
    Py_ssize_t end
) noexcept nogil

@cython.locals(at=Py_ssize_t)
cdef Py_ssize_t _put_none(unsigned char[::1] out, Py_ssize_t end) noexcept nogil

@cython.locals(
    slot=Py_ssize_t, found=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, looks=int,
    row=Py_ssize_t, begin=Py_ssize_t
)
cdef (Py_ssize_t, Py_ssize_t) _number(
    int32_t[::1] ends, Py_ssize_t count, unsigned char[::1] octets, int32_t[::1] slots, Py_ssize_t mask,
    int32_t[::1] codes, int32_t[::1] table, unsigned char[::1] out
) noexcept nogil

@cython.locals(end=Py_ssize_t)
cdef Py_ssize_t _put_head(unsigned char[::1] out, Py_ssize_t count, int64_t first) noexcept nogil

cdef uint64_t _zigzag(int64_t value) noexcept nogil

cdef Py_ssize_t _put_varint(unsigned char[::1] out, Py_ssize_t end, uint64_t value) noexcept nogil

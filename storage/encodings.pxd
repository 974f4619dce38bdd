cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

cdef int CELLS
cdef int _BLOCK, _PART, _PARTS
cdef int64_t _LOW


@cython.locals(
    place=Py_ssize_t, at=Py_ssize_t, differ=int, a=int64_t, b=int64_t, c=int64_t, d=int64_t, ab=int64_t, bb=int64_t,
    cc=int64_t, dd=int64_t
)
cpdef int split(
    int64_t[::1] cells, Py_ssize_t count, int64_t[::1] first, int64_t[::1] second, int32_t[::1] third,
    int32_t[::1] fourth, int32_t[::1] fifth, int32_t[::1] sixth
) except -1

@cython.locals(at=Py_ssize_t)
cpdef object widen(int32_t[::1] numbers, Py_ssize_t count, int64_t[::1] out)

@cython.locals(found=Py_ssize_t, at=Py_ssize_t, octet=int, number=int32_t)
cpdef Py_ssize_t look_up(
    int32_t[::1] codes, Py_ssize_t count, int32_t[::1] table, int64_t[::1] present, unsigned char[::1] levels
) except -1

@cython.locals(found=Py_ssize_t, at=Py_ssize_t, octet=int)
cpdef Py_ssize_t take(
    int64_t[::1] values, int32_t[::1] codes, Py_ssize_t count, int32_t[::1] marks, int64_t scale,
    int64_t[::1] present, unsigned char[::1] levels
) except -1

@cython.locals(end=Py_ssize_t, start=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, place=Py_ssize_t)
cpdef Py_ssize_t texts(
    int32_t[::1] ends, unsigned char[::1] octets, unsigned char[::1] out, unsigned char[::1] levels
) except -1

@cython.locals(at=Py_ssize_t, octet=uint64_t, bits=int, rest=uint64_t, left=int)
cpdef Py_ssize_t pack(
    int64_t[::1] values, Py_ssize_t start, Py_ssize_t stop, int width, unsigned char[::1] out, Py_ssize_t end
) except -1

@cython.locals(
    last=int64_t, start=Py_ssize_t, stop=Py_ssize_t, least=int64_t, most=int64_t, at=Py_ssize_t, difference=int64_t
)
cpdef Py_ssize_t grow(int64_t[::1] values, Py_ssize_t count, unsigned char[::1] out, Py_ssize_t end) except -1

@cython.locals(widths=Py_ssize_t, at=Py_ssize_t, part=int, first=Py_ssize_t, seen=uint64_t, width=int)
cdef Py_ssize_t _put_block(
    int64_t[::1] values, Py_ssize_t start, Py_ssize_t stop, unsigned char[::1] out, Py_ssize_t end
) except -1

@cython.locals(at=Py_ssize_t)
cdef Py_ssize_t _put_none(unsigned char[::1] out, Py_ssize_t end) except -1

@cython.locals(end=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t count_up(int64_t first, Py_ssize_t count, unsigned char[::1] out) except -1

cdef Py_ssize_t _put_head(unsigned char[::1] out, Py_ssize_t end, Py_ssize_t count, int64_t first) except -1

cdef uint64_t _zigzag(int64_t value) noexcept

cdef Py_ssize_t _put_varint(unsigned char[::1] out, Py_ssize_t end, uint64_t value) except -1

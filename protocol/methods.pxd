cimport cython
from libc.stdint cimport uint32_t, uint64_t

from rabbitlike.protocol cimport octets, tables

cdef int _END, _BIT, _OCTET, _SHORT, _LONG, _LONGLONG, _SHORTSTR, _LONGSTR, _TABLE
cdef tuple _SIZES
cdef dict _PLANS


@cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, index=uint32_t, code=int, mask=int, bits=int,
               number=uint64_t)
cpdef object decode(bytes payload)
@cython.locals(number=uint64_t)
cdef uint64_t _number(const unsigned char* p, Py_ssize_t at, Py_ssize_t end) noexcept
@cython.locals(out=bytearray, text=bytes, code=int, mask=int)
cpdef bytes encode(object method, int channel)

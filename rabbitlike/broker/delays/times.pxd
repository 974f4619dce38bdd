cimport cython
from libc.stdint cimport int64_t

from rabbitlike.protocol.properties cimport Properties

cdef int64_t MOST_DELAY_MS


cpdef bint is_timed(Properties properties) except -1
cpdef tuple read_due(Properties properties, object now_ms)
@cython.locals(at=Py_ssize_t, delay_ms=int64_t)
cpdef int64_t plain_delay(Properties properties) except -1
@cython.locals(at=Py_ssize_t, raw=bytearray, p="unsigned char*", carry=int, place=Py_ssize_t)
cpdef bytes negated(Properties properties)
@cython.locals(p="const unsigned char*", kind=int)
cdef Py_ssize_t signed_size(bytes raw, Py_ssize_t at) except -1
@cython.locals(p="const unsigned char*", size=Py_ssize_t, number=int64_t, place=Py_ssize_t)
cdef int64_t read_signed(bytes raw, Py_ssize_t at) except -1

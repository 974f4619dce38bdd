cimport cython

from libc.stdint cimport int64_t

from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.frames cimport OutBuffer


@cython.final
cdef class Outlet(OutBuffer):
    cdef object _client
    cdef Turn _turn
    cdef bint _marked
    cdef public bint open
    cdef public Py_ssize_t limit
    cdef public Py_ssize_t payload_max
    cdef readonly int64_t unacked_bytes
    cdef readonly int64_t unacked_limit
    cdef readonly bint is_full

    cpdef object mark(self)
    cpdef object delivered(self, int64_t memory_bytes)
    cpdef bint settled(self, int64_t memory_bytes) except -1
    cpdef object flushed(self)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.turn cimport Turn

cdef int64_t NEVER


@cython.final
cdef class Shares:
    cdef public list weights
    cdef public int64_t max_wait_ms
    cdef public int rank
    cdef public int64_t credit
    cdef Turn _turn
    cdef int64_t _look_at_ms
    cdef bint _was_late

    cpdef object restart(self)
    cpdef bint is_look_due(self)
    cpdef bint is_late(self, int64_t published_at_ms)
    cpdef object look_again(self, int64_t oldest_at_ms)
    cpdef object returned(self, int64_t published_at_ms)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.journal cimport Journal
from rabbitlike.broker.turn cimport Turn

cdef int64_t LITTLE_BYTES, BURST_MS


@cython.final
cdef class Throttle:
    cdef object _client
    cdef Turn _turn
    cdef Journal _journal
    cdef object _credit
    cdef object _admission
    cdef int64_t _fresh_bytes
    cdef int64_t _older_bytes
    cdef int64_t _number
    cdef int64_t _burst_bytes
    cdef int64_t _burst_at_ms

    @cython.locals(own_bytes=int64_t)
    cpdef object published(self, int64_t written_bytes)
    @cython.locals(journal=Journal)
    cdef int64_t _uncommitted(self, int64_t written_bytes) except -1
    cdef bint _is_burst(self) except -1

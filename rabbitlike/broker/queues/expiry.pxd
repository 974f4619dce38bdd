cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.queues.ordering.ready cimport Ready
from rabbitlike.broker.turn cimport Turn

cdef int READY
cdef int64_t STALE_ENTRIES


@cython.final
cdef class Expiry:
    cdef object _queue
    cdef Ready _ready
    cdef Turn _turn
    cdef list _heap
    cdef int64_t _count
    cdef object _timer
    cdef int64_t _due_at_ms
    cdef int64_t _ttl_ms
    cdef bint _had_ttl
    cdef bint _in_order
    cdef bint _is_expiring

    @cython.locals(expires_at_ms=int64_t)
    cdef object stamp(self, Message message)
    @cython.locals(is_of_ttl=bint)
    cpdef object remember(self, Message message)
    cdef object _watch(self, int64_t expires_at_ms)

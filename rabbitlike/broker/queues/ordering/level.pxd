cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.queues.ordering.ring cimport Ring

cdef int GONE


@cython.final
cdef class Level:
    cdef public Ring ring
    cdef public list returned
    cdef public object pages
    cdef public Ring tail
    cdef int64_t kept_to
    cdef public int64_t last_returned
    cdef readonly int number
    cdef readonly int64_t count
    cdef readonly int64_t unacked
    cdef readonly int64_t enqueued
    cdef readonly int64_t dequeued
    cdef readonly int64_t served_at_ms

    cpdef object clear(self)
    cdef object push_back(self, Message message)
    cdef object push_to_tail(self, Message message)
    @cython.locals(message=Message)
    cpdef Message first(self)
    @cython.locals(message=Message)
    cdef Message pop(self)
    cdef object add_page(self, object page)
    @cython.locals(used_up=Ring)
    cdef bint turn_to_tail(self) except -1
    @cython.locals(message=Message)
    cdef object keep(self, int64_t last_position)

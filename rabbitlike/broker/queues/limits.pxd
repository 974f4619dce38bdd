cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.queues.ordering.ready cimport Ready


@cython.final
cdef class Limits:
    cdef object _queue
    cdef Ready _ready
    cdef int64_t _max_length
    cdef int64_t _max_bytes
    cdef object _overflow
    cdef object held_dead_letters
    cdef bint are_set
    cdef bint refuse
    cdef int64_t _promised_count
    cdef int64_t _promised_bytes
    cdef bint is_admitting
    cdef bint _is_trimming

    @cython.locals(ready=Ready)
    cdef bint have_room(self, int64_t count, int64_t body_bytes) except -1
    @cython.locals(ready=Ready)
    cdef object promise(self, int64_t count, int64_t body_bytes)
    cdef bint are_exceeded(self) except -1
    cdef bint turn_away(self, Message message) except -1
    cdef object trim(self)
    cpdef bint _trim_some(self) except -1
    @cython.locals(dropped=Message)
    cdef bint _drop_first(self) except -1

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.counters cimport Counters
from rabbitlike.broker.message cimport Message, make_message
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.protocol.properties cimport Properties


@cython.final
cdef class Publication:
    cdef readonly object source
    cdef readonly Counters exchange
    cdef readonly list queues
    cdef readonly bytes address
    cdef readonly bytes properties
    cdef readonly bytes body
    cdef readonly bint persistent
    cdef readonly int priority
    cdef readonly int64_t expiration_ms
    cdef readonly bint mandatory
    cdef readonly int64_t due_ms
    cdef readonly object delays
    cdef readonly object duplicates
    cdef readonly bint is_dropped
    cdef public bint is_promised
    cdef readonly bint is_refused
    cdef readonly list letters

    @cython.locals(queue=Queue, accepted=bint)
    cpdef bint deposit(self, int64_t now_ms) except -1
    @cython.locals(queue=Queue)
    cpdef object look_up(self, object queues)
    @cython.locals(queue=Queue, message=Message, accepted=bint, inlet=Counters)
    cdef bint _deposit(self, int64_t now_ms) except -1

cimport cython
from libc.stdint cimport int64_t

cdef int READY, UNLOGGED
cdef int64_t MESSAGE_COST


@cython.final
cdef class Message:
    cdef public bytes address
    cdef public bytes properties
    cdef public bytes body
    cdef public int64_t expires_at_ms
    cdef public int64_t position
    cdef public int64_t published_at_ms
    cdef public int attempts
    cdef public int priority
    cdef public bint persistent
    cdef public int state
    cdef public int logged
    cdef public int index
    cdef public object batch


@cython.locals(message=Message)
cpdef Message make_message(
    bytes address, bytes properties, bytes body, bint persistent, int priority, int64_t published_at_ms
)
cpdef int64_t cost_of(Message message)
cpdef bytes with_delivery_count(Message message)

from libc.stdint cimport int64_t

from rabbitlike.broker.statistics.counters cimport Counters
from rabbitlike.broker.message cimport Message


cdef class Subscriber:
    cdef readonly str tag
    cdef public int64_t priority
    cdef public bint no_ack
    cdef public bint parked
    cdef public bint left
    cdef public int held
    cdef public Counters pair

    cpdef bint takes(self) except -1
    cpdef object deliver(self, Message message)
    cpdef object deliver_more(self, Message like)
    cpdef object hold(self, int64_t number)
    cpdef object cancel(self)


cdef class Pumped:
    cdef public bint touched

    cpdef object pump(self)

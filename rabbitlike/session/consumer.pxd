cimport cython

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.turn cimport Turn
from rabbitlike.session.outlet cimport Outlet
from rabbitlike.session.unacked cimport Delivery, Unacked


cdef class Consumer(Subscriber):
    cdef readonly str tag
    cdef readonly Queue queue
    cdef readonly bint no_ack
    cdef readonly bint exclusive
    cdef public int prefetch_count
    cdef readonly object arguments
    cdef bytes _tag_octets
    cdef int _number
    cdef Outlet _outlet
    cdef Unacked _unacked
    cdef Turn _turn
    cdef object _on_cancel
    cdef object _timeout
    cdef object _timeout_ms

    cpdef bint takes(self) except -1
    @cython.locals(unacked=Unacked, properties=bytes)
    cpdef object deliver(self, Message message)
    cpdef object cancel(self)


cpdef bytes with_delivery_count(Message message)

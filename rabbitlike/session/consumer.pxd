cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.statistics.counters cimport Counters
from rabbitlike.broker.message cimport Message, cost_of, with_delivery_count
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.queues.runs cimport find_run, take_run
from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.frames cimport DeliveryTemplate
from rabbitlike.session.outlet cimport Outlet
from rabbitlike.session.unacked cimport Delivery, Unacked, make_delivery


cdef class Consumer(Subscriber):
    cdef readonly object channel
    cdef readonly Queue queue
    cdef readonly bint exclusive
    cdef public int prefetch_count
    cdef readonly object arguments
    cdef bytes _tag_octets
    cdef int _number
    cdef Outlet _outlet
    cdef Unacked _unacked
    cdef Turn _turn
    cdef Counters _counters
    cdef Counters _totals
    cdef DeliveryTemplate _template
    cdef bytes _last_address
    cdef bytes _last_properties
    cdef object _timeout
    cdef object _any_timeout
    cdef object _timeout_ms
    cdef object _ack_timeout_ms
    cdef object _deadline_ms
    cdef bint _is_timed

    cpdef bint takes(self) except -1
    @cython.locals(unacked=Unacked, properties=bytes, delivery=Delivery)
    cpdef object deliver(self, Message message)
    @cython.locals(credit=int64_t, run=list)
    cpdef object deliver_more(self, Message like)
    @cython.locals(outlet=Outlet, left=Py_ssize_t, size=Py_ssize_t, body_bytes=Py_ssize_t, bodies=list,
                   count=Py_ssize_t, unacked=Unacked, tag=int64_t, message=Message, deliveries=list, delivery=Delivery)
    cdef object _deliver_run(self, list run, DeliveryTemplate like)
    @cython.locals(outlet=Outlet, start=Py_ssize_t, size=Py_ssize_t)
    cdef object _put(self, Message message, bytes properties, int64_t delivery_tag)
    cdef object _watch(self, Delivery delivery)
    cpdef object hold(self, int64_t number)
    cpdef object cancel(self)

cimport cython
from libc.stdint cimport uint64_t

from rabbitlike.broker.counters cimport Counters
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.queues.runs cimport ack_run
from rabbitlike.session.publisher cimport Publisher
from rabbitlike.session.unacked cimport Delivery, Unacked

cdef int RETURNED


cdef class Channel(Publisher):
    cdef readonly Unacked unacked
    cdef public dict consumers
    cdef public int prefetch_count
    cdef public str last_queue
    cdef readonly object timeout
    cdef readonly object deadlines
    cdef readonly dict deliveries
    cdef object _lapsed
    cdef readonly str name

    @cython.locals(delivery=Delivery, consumer=Subscriber)
    cdef object on_ack(self, uint64_t delivery_tag, bint multiple)
    cdef object on_nack(self, uint64_t delivery_tag, bint multiple, bint requeue)
    cdef object on_reject(self, uint64_t delivery_tag, bint requeue)
    cpdef Counters pair_with(self, Queue queue)
    @cython.locals(consumer=Subscriber, pair=Counters)
    cdef object _count_acks(self, Delivery delivery, Py_ssize_t count)
    @cython.locals(first=Delivery, delivery=Delivery, messages=list)
    cdef object _ack_all(self, list deliveries)
    cdef object _ack_run(self, Delivery first, list messages)
    cdef object _note_nack(self, Delivery delivery)
    cdef list _take(self, uint64_t delivery_tag, bint multiple)
    cdef object _check_lapsed(self, uint64_t delivery_tag)
    @cython.locals(delivery=Delivery)
    cdef object _settle(self, list deliveries, object settle)
    @cython.locals(consumer=Subscriber, was_full=bint)
    cdef object _release(self, Delivery delivery, Py_ssize_t count)
    cpdef object wake_consumers(self)
    @cython.locals(delivery=Delivery)
    cpdef object requeue_all(self)

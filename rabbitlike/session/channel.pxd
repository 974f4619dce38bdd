cimport cython
from libc.stdint cimport int64_t, uint64_t

from rabbitlike.broker.statistics.counters cimport Counters
from rabbitlike.broker.message cimport cost_of
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.queues.runs cimport ack_run
from rabbitlike.session.publisher cimport Publisher
from rabbitlike.session.unacked cimport Delivery, Unacked

cdef int RETURNED, STRIDE, TOGETHER, TAKES_NONE


cdef class Channel(Publisher):
    cdef readonly Unacked unacked
    cdef public dict consumers
    cdef public int prefetch_count
    cdef public str last_queue
    cdef readonly object timeout
    cdef readonly object deadlines
    cdef readonly dict deliveries
    cdef object _revoked_tags
    cdef list _leaving
    cdef public object tx_commit
    cdef readonly str name

    @cython.locals(delivery=Delivery, consumer=Subscriber)
    cdef object on_ack(self, uint64_t delivery_tag, bint multiple)
    cdef object on_nack(self, uint64_t delivery_tag, bint multiple, bint requeue)
    cdef object on_reject(self, uint64_t delivery_tag, bint requeue)
    cpdef Counters pair_with(self, Queue queue)
    @cython.locals(consumer=Subscriber, pair=Counters)
    cdef object _count_acks(self, Delivery delivery, Py_ssize_t count)
    @cython.locals(first=Delivery, delivery=Delivery, messages=list, memory_bytes=int64_t)
    cdef object _ack_all(self, list deliveries)
    cdef object _ack_run(self, Delivery first, list messages, int64_t memory_bytes)
    cdef object _note_nack(self, Delivery delivery)
    cdef list _take(self, uint64_t delivery_tag)
    cdef object _settle_up_to(self, uint64_t delivery_tag, object settle)
    @cython.locals(deliveries=list)
    cpdef bint _settle_some(self, uint64_t delivery_tag, object settle) except -1
    cdef object _check_revoked(self, uint64_t delivery_tag)
    @cython.locals(delivery=Delivery)
    cdef object _settle(self, list deliveries, object settle)
    cpdef object settle(self, Delivery delivery, object settle)
    @cython.locals(consumer=Subscriber, was_full=bint)
    cdef object _release(self, Delivery delivery, Py_ssize_t count, int64_t memory_bytes)
    cpdef object wake_consumers(self)
    @cython.locals(deliveries=list)
    cpdef bint recover(self, uint64_t last_tag) except -1
    @cython.locals(delivery=Delivery)
    cdef object _requeue(self, list deliveries)

cimport cython
from libc.stdint cimport int64_t, uint64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.queues.queue cimport Queue

cdef Py_ssize_t FEW_HOLES


@cython.final
cdef class Delivery:
    cdef readonly int64_t tag
    cdef readonly Message message
    cdef readonly Queue queue
    cdef readonly Subscriber consumer
    cdef readonly int64_t delivered_at_ms
    cdef public int64_t due_at_ms


@cython.locals(delivery=Delivery)
cpdef Delivery make_delivery(int64_t tag, Message message, Queue queue, Subscriber consumer, int64_t delivered_at_ms)


@cython.final
cdef class Unacked:
    cdef list _entries
    cdef Py_ssize_t _head
    cdef readonly Py_ssize_t count
    cdef public int64_t last_tag
    cdef public int64_t limit
    cdef public int64_t held

    cpdef object add(self, Delivery delivery)
    cdef object add_run(self, list deliveries)
    @cython.locals(at=Py_ssize_t, delivery=Delivery)
    cpdef Delivery take(self, int64_t tag)
    cpdef bint has(self, int64_t tag) except -1
    @cython.locals(entries=list, head=Py_ssize_t, end=Py_ssize_t, delivery=Delivery)
    cpdef list take_oldest(self, int64_t tag, Py_ssize_t most)
    @cython.locals(entries=list, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, at=Py_ssize_t, candidate=Delivery)
    cpdef list after(self, int64_t tag, Py_ssize_t most)
    cpdef list deliveries(self)
    @cython.locals(entries=list, first=Delivery, candidate=Delivery, high=int64_t, low=int64_t, middle=int64_t, at=int64_t)
    cdef Py_ssize_t _find(self, int64_t tag) except -2
    @cython.locals(entries=list, head=Py_ssize_t)
    cdef object _pass_holes(self)
    cdef object _squeeze(self)

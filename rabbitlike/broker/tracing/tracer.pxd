cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.tracing.events cimport Events, Place
from rabbitlike.broker.message cimport Message
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.turn cimport Turn

cdef int ACK, AUTO_ACK, DEAD_LETTER, DELAYED, DELIVER, DROP_OVERFLOW, ENQUEUE, EXPIRE, NACK, OTHER, PUBLISH
cdef int REJECT_PUBLISH, REQUEUE, RETRY, ROUTE_FAIL


@cython.final
cdef class Tracer(Place):
    cdef Events _events
    cdef Turn _turn
    cdef readonly object firehose
    cdef readonly bint is_logged

    cpdef object published(
        self, bytes address, bytes properties, int priority, Py_ssize_t size, Py_ssize_t copies, bint is_delayed
    )
    cpdef object published_run(self, list messages, Tracer queue)
    cpdef object confirmed(
        self, bytes address, bytes properties, int priority, Py_ssize_t size, int64_t number, bint accepted
    )
    @cython.locals(like=Message, message=Message, size=Py_ssize_t, count=Py_ssize_t)
    cpdef object confirmed_run(self, list messages, int64_t number)
    cpdef object enqueued(self, Message message)
    cpdef object refused(self, Message message)
    @cython.locals(wait_ms=int64_t)
    cpdef object delivered(self, Message message, Subscriber consumer)
    @cython.locals(message=Message)
    cpdef object delivered_run(self, list messages, Subscriber consumer)
    cpdef object acked(self, Message message, int64_t delivered_at_ms)
    cpdef object acked_run(self, list messages, int64_t delivered_at_ms)
    cpdef object nacked(self, Message message, int64_t delivered_at_ms, Subscriber consumer)
    cpdef object requeued(self, Message message, bint is_waiting)
    cdef object _note(self, int event, Message message, str tag, int64_t took_ms, int reason)

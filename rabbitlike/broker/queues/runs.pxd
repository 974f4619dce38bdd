cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.queues.queue cimport Queue, done_with

cdef int READY, UNACKED, UNLOGGED
cdef int64_t LONGEST_RUN


cpdef bint admits_run(Queue queue, int64_t memory_bytes) except -1
@cython.locals(message=Message, count=int64_t)
cpdef object enqueue_run(Queue queue, list messages, int64_t body_bytes)
@cython.locals(message=Message, address=bytes, properties=bytes, found=list)
cpdef list find_run(Queue queue, Message like, int64_t most)
@cython.locals(
    message=Message, like=Message, now_ms=int64_t, published_at_ms=int64_t, since=int64_t, body_bytes=int64_t,
    count=int64_t
)
cpdef object take_run(Queue queue, list run, Subscriber consumer)
@cython.locals(message=Message, count=int64_t)
cpdef object ack_run(Queue queue, list messages, int64_t delivered_at_ms)

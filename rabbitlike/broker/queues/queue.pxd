cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.statistics.counters cimport Counters, Timing
from rabbitlike.broker.message cimport Message
from rabbitlike.broker.ports cimport Pumped, Subscriber
from rabbitlike.broker.queues.consumers cimport Consumers
from rabbitlike.broker.queues.expiry cimport Expiry
from rabbitlike.broker.queues.limits cimport Limits
from rabbitlike.broker.queues.storage.log cimport Log
from rabbitlike.broker.queues.ordering.ready cimport Ready
from rabbitlike.broker.tracing.tracer cimport Tracer
from rabbitlike.broker.turn cimport Turn

cdef int64_t MANY
cdef int FAILED, GONE, LOGGED, READY, UNACKED


cdef class Queue(Pumped):
    cdef readonly str name
    cdef readonly object vhost
    cdef readonly bint durable
    cdef readonly bint auto_delete
    cdef public object owner
    cdef readonly object arguments
    cdef readonly object settings
    cdef readonly Turn turn
    cdef public Tracer tracer
    cdef readonly bint deleted
    cdef readonly int64_t nacked
    cdef public dict deaths
    cdef readonly Ready ready
    cdef readonly object retries
    cdef readonly object held_dead_letters
    cdef readonly Expiry expiry
    cdef readonly object queue_ttl
    cdef public object leases
    cdef public object pollers
    cdef Limits _limits
    cdef readonly Consumers consumers
    cdef readonly int64_t served_at_ms
    cdef public int64_t violations
    cdef readonly object deduplication
    cdef readonly int64_t unacked_count
    cdef readonly int64_t unacked_bytes
    cdef readonly bint counts_deliveries
    cdef readonly int64_t persistent_count
    cdef public int64_t persistent_bytes
    cdef readonly int64_t unacked_persistent_count
    cdef readonly int64_t unacked_persistent_bytes
    cdef readonly bint is_late
    cdef readonly bint is_paused
    cdef readonly int deposits
    cdef public object policy
    cdef public object operator_policy
    cdef readonly Counters counters
    cdef readonly dict incoming
    cdef readonly Timing wait_time
    cdef readonly Timing processing_time
    cdef int64_t next_position
    cdef int64_t window_bytes
    cdef readonly int64_t congestion_bytes
    cdef readonly object admission
    cdef readonly Log log
    cdef readonly object paging
    cdef int64_t _delivery_limit
    cdef object _retry
    cdef bint _holds_dead_letters
    cdef bint is_simple
    cdef bint _sparing

    @cython.locals(is_plain=bint)
    cpdef bint enqueue(self, Message message) except -1
    cdef object _enforce(self, Message message)
    cdef object _deliver_or_expire(self, Message message)
    @cython.locals(log=Log)
    cdef object _keep(self, Message message)
    cpdef bint admit(self, Message message) except -1
    cdef object spare(self, int64_t count, int64_t body_bytes)
    cpdef Counters inlet(self, object exchange)
    cpdef object pump(self)
    cdef object _serve(self, bint is_all)
    @cython.locals(ready=Ready, consumer=Subscriber, message=Message)
    cdef object _hand_out(self, bint is_all)
    @cython.locals(message=Message)
    cpdef Message take(self)
    cpdef object ack(self, Message message, int64_t delivered_at_ms)
    cpdef object settle(self, Message message)
    cpdef object reject(self, Message message)
    @cython.locals(due_at_ms=int64_t)
    cpdef object requeue(self, Message message, int cause=*)
    cpdef object put_back(self, Message message)
    cdef object _leave_unacked(self, Message message)
    cpdef object dead_letter_ready(self, Message message, object reason)
    cdef object _dead_letter(self, Message message, object reason)
    cpdef object forget(self, Message message)
    cpdef object wake(self, Subscriber consumer)
    @cython.locals(ttl_ms=int64_t)
    cpdef object apply(self, object settings)


cpdef object done_with(Queue queue, Message message)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.delays.schedule cimport Schedule
from rabbitlike.broker.delays.log cimport Bucket, DelayBatch, DelayLog
from rabbitlike.broker.delays.routes cimport Source, Route, Routes
from rabbitlike.broker.message cimport Message, make_message
from rabbitlike.broker.queues.deposit cimport deposit, inlets_of
from rabbitlike.broker.queues.storage.record cimport unpack
from rabbitlike.broker.turn cimport Turn

cdef int GONE, LOGGED, READY, NARROWEST, SOURCE_BITS
cdef int64_t NEVER, NEAR_MS, STRIDE


cdef class Delays:
    cdef object _vhost
    cdef Turn _turn
    cdef int64_t _window
    cdef readonly DelayLog _log
    cdef int64_t _next_position
    cdef readonly int64_t pending
    cdef readonly int64_t delivered
    cdef readonly int64_t cancelled
    cdef readonly int64_t dropped
    cdef readonly Schedule schedule
    cdef dict _near
    cdef readonly dict transient
    cdef readonly dict buckets
    cdef list _opening
    cdef list _unread
    cdef dict _unmerged
    cdef int64_t _sweep_at
    cdef readonly Routes routes
    cdef object _timer
    cdef int64_t _wakes_at_ms

    @cython.locals(message=Message, source=Source, now_ms=int64_t)
    cpdef object add(
        self, bytes address, bytes properties, bytes body, bint persistent, int priority, int64_t due_ms
    )
    @cython.locals(bucket=Bucket, key=int64_t)
    cdef object _store(self, DelayLog stored, int64_t source, Message message, int64_t now_ms)
    cdef Bucket _bucket_for(self, object source, Message message, int64_t now_ms)
    cdef object _end(self, Message message, Source source)
    @cython.locals(message=Message, messages=list, kept=list)
    cpdef list read(self, DelayBatch batch)
    @cython.locals(at_ms=int64_t)
    cpdef object _arm(self, int64_t now_ms)
    @cython.locals(message=Message, bucket=Bucket, messages=list)
    cdef object _schedule_batch(self, DelayLog stored, DelayBatch batch)
    @cython.locals(
        due=list, message=Message, first_ms=int64_t, barrier_ms=int64_t, barrier_position=int64_t
    )
    cdef bint _release_some(self, int64_t now_ms) except -1
    cdef object _release(self, int64_t now_ms)
    @cython.locals(message=Message, stored_due_ms=int64_t, mark_ms=int64_t)
    cdef object _mark(self, list due, int64_t next_due_ms)
    @cython.locals(
        address=bytes, raw=bytes, body=bytes, route=Route, queues=list, inlets=list, seen=Message, expires_at_ms=int64_t
    )
    cdef object _route(self, Message message, int64_t now_ms)

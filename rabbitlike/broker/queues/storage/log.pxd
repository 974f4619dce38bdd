cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.statistics.counters cimport Counters
from rabbitlike.broker.journal cimport Journal
from rabbitlike.broker.message cimport Message
from rabbitlike.broker.queues.storage.record cimport pack, portions

cdef int COMMIT_COST, LOGGED, MESSAGE_COST, SETTLED, AWAITING_RETRY
cdef Py_ssize_t MADE_AHEAD
cdef int64_t PACKED_AT_ONCE, RESERVED, LEAST_AHEAD, MOST_AHEAD, COMMITS_AHEAD, NOWHERE


@cython.final
cdef class StoredBatch:
    cdef Log _log
    cdef readonly int64_t batch_id
    cdef readonly int count
    cdef public int live
    cdef public bytearray settled
    cdef public bint is_dirty

    cpdef object settle(self, int index)
    cpdef bint is_settled(self, int index) except -1


@cython.final
cdef class Log:
    cdef readonly int64_t queue_id
    cdef Journal _journal
    cdef Counters _counters
    cdef Counters _totals
    cdef public int levels
    cdef public int default_priority
    cdef public bint is_touched
    cdef list _fresh
    cdef list _batches
    cdef list _pages
    cdef bint _is_mark_due
    cdef list _dirty
    cdef list _removed
    cdef dict _attempts
    cdef dict _deferred
    cdef object _release
    cdef readonly bint is_durable
    cdef public bint is_deleted
    cdef public int64_t delivered_position
    cdef int64_t _taken_position
    cdef int64_t _inherited
    cdef int64_t _covered
    cdef int64_t _mark
    cdef int64_t _ahead
    cdef bint _is_cover_due
    cdef int64_t _renew_from
    cdef readonly int64_t hold_until
    cdef public int64_t next_position
    cdef public int64_t spill_from
    cdef public list pages

    cpdef object add(self, Message message)
    @cython.locals(batch=StoredBatch)
    cpdef object settle(self, Message message)
    cpdef object returned(self, Message message)
    cpdef object note_retry(self, Message message, int64_t due_at_ms)
    cpdef object note_dead_letter(self, Message message, int64_t dead_lettered_at_ms, bytes death)
    cpdef object erase(self, Message message)
    cpdef object delivered(self, Message message)
    cdef object _cover(self, Message message)
    cpdef object remove(self, StoredBatch batch)
    cpdef object note_dirty(self, StoredBatch batch)
    @cython.locals(batch=StoredBatch, progress=int64_t)
    cpdef object take(self, object work)
    @cython.locals(
        message=Message,
        fresh=list,
        level=int,
        group=list,
        messages=list,
        may_leave=bint,
        last_level=int,
        last_may_leave=bint,
    )
    cdef object _make_batches(self)
    @cython.locals(message=Message, persistent=list, transient=list)
    cdef list _write(self, int level, list messages)
    @cython.locals(message=Message, body_bytes=int64_t, expires_at_ms=int64_t, index=int, is_large=bint)
    cdef StoredBatch _write_batch(self, int level, bint is_persistent, list messages)

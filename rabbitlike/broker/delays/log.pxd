cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.journal cimport Journal
from rabbitlike.broker.message cimport Message, cost_of
from rabbitlike.broker.queues.storage.record cimport pack, portions

cdef int LOGGED, SETTLED


cdef class Bucket:
    cdef readonly int64_t level
    # Operands of shifts, in which a C number would overflow.
    cdef readonly object source
    cdef readonly object power
    cdef readonly int64_t starts_at_ms
    cdef readonly int64_t ends_at_ms
    cdef readonly int64_t opens_at_ms
    cdef readonly dict batches
    cdef readonly tuple small
    cdef public list fresh
    cdef public bint is_open
    cdef public bint is_spread


cdef class DelayBatch:
    cdef DelayLog _log
    cdef readonly Bucket bucket
    cdef readonly int64_t batch_id
    cdef readonly int count
    cdef readonly int64_t first_position
    cdef readonly int64_t last_position
    cdef readonly int64_t due_ms
    cdef readonly int64_t size
    cdef readonly bytearray settled
    cdef public int live
    cdef public bint is_dirty
    cdef public list messages

    cpdef object settle(self, int index)
    cpdef object set_bit(self, int index)
    cpdef bint is_settled(self, int index) except -1


cdef class DelayLog:
    cdef readonly int64_t queue_id
    cdef Journal _journal
    cdef object _told
    cdef public bint is_touched
    cdef bint _deleted
    cdef dict _fresh
    cdef list _dirty
    cdef list _removed
    cdef list _writing
    cdef readonly int64_t held_bytes
    cdef public int64_t mark_ms
    cdef public int64_t next_position
    cdef bint _is_mark_due

    cpdef object add(self, Bucket bucket, Message message)
    @cython.locals(batch=DelayBatch)
    cpdef object settle(self, Message message)
    cpdef object set_mark(self, int64_t mark_ms)
    cpdef object remove(self, DelayBatch batch)
    cpdef object keep(self, DelayBatch batch, list messages)
    cpdef object drop_messages(self, DelayBatch batch)
    cpdef object note_dirty(self, DelayBatch batch)
    cdef object _touch(self)
    @cython.locals(bucket=Bucket, message=Message, fresh=list, messages=list, batch=DelayBatch)
    cpdef object take(self, object work)
    @cython.locals(message=Message, index=int, batch=DelayBatch)
    cdef DelayBatch _write(self, Bucket bucket, list messages, object work)


cpdef Py_ssize_t size_of(Message message) except -1

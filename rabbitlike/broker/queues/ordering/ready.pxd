cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.queues.ordering.fairness cimport Shares
from rabbitlike.broker.queues.ordering.level cimport Level
from rabbitlike.broker.queues.ordering.ring cimport Ring

cdef int GONE, PAGED, READY
cdef int64_t MESSAGE_COST


@cython.final
cdef class Ready:
    cdef int _levels
    cdef int _default_priority
    cdef object _load
    cdef readonly bint is_spilling
    cdef Level _bottom
    cdef dict _others
    cdef readonly bint has_levels
    cdef list _ranked
    cdef int64_t _ranked_count
    cdef public Shares shares
    cdef readonly int64_t count
    cdef readonly int64_t body_bytes
    cdef readonly int64_t memory_bytes
    cdef readonly int64_t page_count
    cdef readonly int64_t paged_count
    cdef readonly int64_t paged_bytes

    cdef object push(self, Message message)
    @cython.locals(message=Message, first=Message, count=int64_t)
    cdef object push_run(self, list messages, int64_t body_bytes)
    @cython.locals(level=Level)
    cdef object push_back(self, Message message)
    @cython.locals(message=Message)
    cdef Message pop(self)
    cdef list next(self, int64_t most)
    @cython.locals(first=Message, count=int64_t)
    cdef object pop_run(self, list run, int64_t body_bytes)
    cpdef object remove(self, Message message)
    @cython.locals(level=Level)
    cpdef list clear(self)
    cpdef int level_number(self, int priority)
    @cython.locals(level=Level)
    cdef object served(self, Message message, int64_t at_ms)
    @cython.locals(level=Level)
    cdef object leave_unacked(self, Message message)
    @cython.locals(level=Level)
    cdef Level _level(self, int number)
    @cython.locals(level=Level)
    cdef object _push_to_level(self, Message message)
    cdef object _count(self, Level level, int64_t more)
    @cython.locals(message=Message, level=Level)
    cdef Message _pop_highest(self)
    @cython.locals(message=Message, level=Level, left=int64_t)
    cdef Message _pop_by_shares(self, Shares shares)
    @cython.locals(message=Message, level=Level, oldest=Level, oldest_at_ms=int64_t)
    cdef Message _pop_late(self, Shares shares)
    cdef bint _has_ready(self, Level level)
    @cython.locals(message=Message)
    cdef Message _pop_level(self, Level level)
    @cython.locals(message=Message)
    cdef Message _first(self, Level level)
    @cython.locals(level=Level, tail=Ring, message=Message)
    cpdef bint page_out(self, object page) except -1
    @cython.locals(level=Level)
    cpdef object gather(self)
    cdef object _add_page(self, Level level, object page)
    cdef bint _read_on(self, Level level) except -1
    @cython.locals(message=Message)
    cdef object _read_page(self, Level level)
    @cython.locals(level=Level)
    cdef bint _has_tail(self) except -1
    @cython.locals(level=Level, message=Message)
    cpdef Message head(self)
    cpdef list heads(self)
    @cython.locals(level=Level, message=Message, published_at_ms=int64_t, oldest_ms=int64_t)
    cpdef int64_t oldest_at_ms(self) except -1
    cpdef list in_memory(self)

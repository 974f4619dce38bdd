cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.queues.fairness cimport Shares

cdef int GONE, PAGED, READY, UNLOGGED
cdef int64_t SMALLEST_RING, KEPT_RING, LONGEST_RUN, MESSAGE_COST


@cython.final
cdef class Ring:
    cdef list slots
    cdef int64_t mask
    cdef int64_t head
    cdef int64_t tail

    cdef inline object push(self, Message message)
    @cython.locals(count=int64_t, at=int64_t, before_end=int64_t)
    cdef object push_run(self, list messages)
    @cython.locals(message=Message)
    cdef int64_t last_position(self)
    @cython.locals(message=Message)
    cpdef Message first(self)
    @cython.locals(message=Message, at=int64_t)
    cpdef Message pop(self)
    @cython.locals(message=Message, address=bytes, properties=bytes, at=int64_t, found=list)
    cdef list next_like(self, Message like, int64_t most)
    @cython.locals(at=int64_t)
    cdef object drop(self, int64_t count)
    cpdef list messages(self)
    @cython.locals(message=Message, low=int64_t, high=int64_t, middle=int64_t)
    cpdef list after(self, int64_t position, int64_t most)
    cdef object _grow(self)


@cython.final
cdef class Level:
    cdef public Ring ring
    cdef public list returned
    cdef public object pages
    cdef public Ring tail
    cdef int64_t kept_to
    cdef readonly int number
    cdef readonly int64_t count
    cdef readonly int64_t unacked
    cdef readonly int64_t enqueued
    cdef readonly int64_t dequeued
    cdef readonly int64_t served_at_ms

    cpdef object clear(self)
    cdef object push_to_tail(self, Message message)
    @cython.locals(message=Message)
    cpdef Message first(self)
    @cython.locals(message=Message)
    cdef Message pop(self)
    @cython.locals(used_up=Ring)
    cdef bint turn_to_tail(self) except -1
    @cython.locals(message=Message)
    cdef object keep(self, int64_t last_position)


@cython.final
cdef class Ready:
    cdef int _levels
    cdef int _default_priority
    cdef object _load
    cdef bint _is_spilling
    cdef Level _bottom
    cdef dict _others
    cdef readonly bint has_levels
    cdef list _ranked
    cdef int64_t _ranked_count
    cdef Shares _shares
    cdef readonly int64_t count
    cdef readonly int64_t body_bytes
    cdef readonly int64_t memory_bytes
    cdef readonly int64_t page_count
    cdef readonly int64_t paged_count
    cdef readonly int64_t paged_bytes

    cdef object push(self, Message message)
    @cython.locals(message=Message, count=int64_t)
    cdef object push_run(self, list messages, int64_t body_bytes)
    @cython.locals(level=Level)
    cdef object push_back(self, Message message)
    @cython.locals(message=Message)
    cdef Message pop(self)
    @cython.locals(level=Level)
    cdef object served(self, Message message, int64_t at_ms)
    @cython.locals(level=Level)
    cdef object let_go(self, Message message)
    cdef list next_like(self, Message like, int64_t most)
    cdef object pop_run(self, int64_t count, int64_t body_bytes)
    cpdef object remove(self, Message message)
    cpdef list heads(self)
    @cython.locals(level=Level, message=Message)
    cpdef Message head(self)
    @cython.locals(level=Level, message=Message, published_at_ms=int64_t, oldest_ms=int64_t)
    cpdef int64_t oldest_at_ms(self) except -1
    cpdef list in_memory(self)
    @cython.locals(level=Level)
    cpdef object clear(self)
    @cython.locals(level=Level)
    cpdef object gather(self)
    @cython.locals(level=Level, tail=Ring, message=Message)
    cpdef bint page_out(self, object page) except -1
    cpdef int level_number(self, int priority)
    cdef object _add_page(self, Level level, object page)
    @cython.locals(level=Level)
    cdef Level _level(self, int number)
    @cython.locals(message=Message)
    cdef Message _pop_level(self, Level level)
    @cython.locals(message=Message)
    cdef Message _first(self, Level level)
    cdef bint _read_on(self, Level level) except -1
    @cython.locals(message=Message)
    cdef object _read_page(self, Level level)
    @cython.locals(level=Level)
    cdef bint _has_tail(self) except -1
    @cython.locals(level=Level)
    cdef object _push_to_level(self, Message message)
    cdef object _uncount(self, Level level, int64_t count)
    @cython.locals(message=Message, level=Level)
    cdef Message _pop_highest(self)
    @cython.locals(message=Message, level=Level, left=int64_t)
    cdef Message _pop_by_shares(self, Shares shares)
    @cython.locals(message=Message, level=Level, oldest=Level, oldest_at_ms=int64_t)
    cdef Message _pop_late(self, Shares shares)
    cdef bint _has_ready(self, Level level)
    cpdef list _in_order(self)

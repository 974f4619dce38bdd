cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message

cdef int GONE, READY
cdef int64_t SMALLEST_RING, KEPT_RING


@cython.final
cdef class Level:
    cdef list ring
    cdef int64_t mask
    cdef int64_t head
    cdef int64_t tail
    cdef list returned

    cdef inline object push(self, Message message)
    @cython.locals(message=Message)
    cpdef Message first(self)
    @cython.locals(message=Message, at=int64_t)
    cdef Message pop(self)
    @cython.locals(message=Message)
    cdef object _skip_gone(self)
    cdef object _grow(self)


@cython.final
cdef class Ready:
    cdef int _levels
    cdef int _default_priority
    cdef Level _bottom
    cdef dict _others
    cdef readonly int64_t count
    cdef readonly int64_t body_bytes

    cdef object push(self, Message message)
    @cython.locals(level=Level)
    cdef object push_back(self, Message message)
    @cython.locals(message=Message)
    cdef Message pop(self)
    cdef object remove(self, Message message)
    cpdef list heads(self)
    cpdef object clear(self)
    cdef int _level_number(self, int priority)
    @cython.locals(level=Level, number=int)
    cdef Level _level(self, Message message)
    @cython.locals(message=Message, level=Level)
    cdef Message _pop_higher(self)
    cpdef list _in_order(self)

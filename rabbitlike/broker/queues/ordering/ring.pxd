cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message

cdef int GONE
cdef int64_t SMALLEST_RING, KEPT_RING


@cython.final
cdef class Ring:
    cdef list slots
    cdef int64_t mask
    cdef int64_t head
    cdef int64_t tail

    cdef object push(self, Message message)
    @cython.locals(count=int64_t, at=int64_t, before_end=int64_t)
    cdef object push_run(self, list messages)
    @cython.locals(message=Message)
    cdef int64_t last_position(self)
    @cython.locals(message=Message)
    cpdef Message last(self)
    cpdef object drop_last(self)
    @cython.locals(message=Message)
    cpdef Message first(self)
    @cython.locals(message=Message, at=int64_t)
    cpdef Message pop(self)
    @cython.locals(at=int64_t)
    cdef list next(self, int64_t most)
    @cython.locals(at=int64_t)
    cdef object drop(self, int64_t count)
    cpdef list messages(self)
    @cython.locals(message=Message, low=int64_t, high=int64_t, middle=int64_t)
    cpdef list after(self, int64_t position, int64_t most)
    cdef object _grow(self)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message

cdef int READY


@cython.final
cdef class Schedule:
    cdef dict _messages
    cdef list _times
    cdef set _mixed

    @cython.locals(due_ms=int64_t, last=Message)
    cdef object put(self, Message message)
    cdef int64_t first_ms(self) except -1
    @cython.locals(due_ms=int64_t, message=Message)
    cdef bint take_first(self, list due, Py_ssize_t stride, int64_t last_position) except -1
    cdef object clear(self)
    @cython.locals(due_ms=int64_t)
    cdef object _forget_first(self)

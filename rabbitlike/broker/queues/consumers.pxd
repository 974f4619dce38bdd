cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.ports cimport Subscriber
from rabbitlike.broker.turn cimport Turn

cdef int64_t MEMORY_MS


@cython.final
cdef class PriorityGroup:
    cdef int64_t priority
    cdef list members
    cdef Py_ssize_t turn
    cdef Py_ssize_t left


@cython.final
cdef class Consumers:
    cdef readonly bint single_active
    cdef readonly dict all
    cdef readonly Subscriber active
    cdef readonly Subscriber exclusive
    cdef readonly bint is_alone
    cdef list _groups
    cdef dict _in_line
    cdef Turn _turn
    cdef bint _is_stalled
    cdef int64_t _since_ms
    cdef int64_t _active_ms
    cdef double _average

    cdef object _stall(self)
    cdef object _go_on(self)
    @cython.locals(total_ms=double, kept=double)
    cdef double _blend(self, int64_t active_ms, int64_t stalled_ms) except -1
    cpdef object add(self, Subscriber consumer, bint exclusive=*)
    cpdef bint unpark(self, Subscriber consumer) except -1
    @cython.locals(group=PriorityGroup, members=list, consumer=Subscriber, found=Subscriber, first=Py_ssize_t, at=Py_ssize_t)
    cdef Subscriber take(self)
    @cython.locals(group=PriorityGroup, place=Py_ssize_t)
    cdef object _enter(self, Subscriber consumer)
    @cython.locals(highest=int64_t, consumer=Subscriber)
    cdef Subscriber _next_active(self)
    @cython.locals(group=PriorityGroup)
    cdef object _leave(self, Subscriber consumer)


@cython.locals(members=list, consumer=Subscriber, turn=Py_ssize_t, at=Py_ssize_t)
cdef object _tidy(PriorityGroup group)

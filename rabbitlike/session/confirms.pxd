cimport cython
from libc.stdint cimport int64_t, uint32_t

from rabbitlike.session.outlet cimport Outlet

cdef uint32_t BASIC_ACK, BASIC_NACK


@cython.final
cdef class ConfirmRange:
    cdef public int64_t last
    cdef public int64_t commit_number
    cdef public bint refused


@cython.final
cdef class Confirms:
    cdef readonly int64_t published
    cdef readonly int64_t confirmed
    cdef readonly int64_t committed
    cdef int64_t _settled
    cdef int64_t _answered
    cdef int64_t _awaited
    cdef object _ranges

    cpdef bint accept(self, int64_t commit_number, int64_t count=*) except -1
    cpdef bint refuse(self) except -1
    cpdef bint commit(self, int64_t commit_number) except -1
    @cython.locals(pending=ConfirmRange)
    cpdef object write(self, uint32_t channel, Outlet out)
    cdef object _write(self, uint32_t index, uint32_t channel, Outlet out)
    @cython.locals(last=ConfirmRange)
    cdef object _add(self, int64_t commit_number, bint refused)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.ports cimport Pumped


@cython.final
cdef class Turn:
    cdef object _clock
    cdef public int64_t now_ms
    cdef public bint alarmed
    cdef public int64_t generation
    cdef list _queues
    cdef list _clients
    cdef list _later

    cpdef object begin(self)
    cpdef object renew(self)
    cpdef object touch(self, Pumped queue)
    cpdef object mark(self, object client)
    cpdef object later(self, object work)
    cpdef object finish(self)
    cdef object _guard(self, object work)

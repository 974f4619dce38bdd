cimport cython

from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.frames cimport OutBuffer


@cython.final
cdef class Outlet(OutBuffer):
    cdef object _client
    cdef Turn _turn
    cdef bint _marked
    cdef public bint open
    cdef public Py_ssize_t limit
    cdef public Py_ssize_t payload_max

    cpdef object mark(self)
    cpdef object flushed(self)

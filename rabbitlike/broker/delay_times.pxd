cimport cython
from libc.stdint cimport int64_t

from rabbitlike.protocol.properties cimport Properties


cpdef bint is_timed(Properties properties) except -1
@cython.locals(raw=bytes)
cpdef tuple read_due(Properties properties, object now_ms)
@cython.locals(raw=bytes, at=Py_ssize_t, size=Py_ssize_t)
cdef object _read_lone(Properties properties)

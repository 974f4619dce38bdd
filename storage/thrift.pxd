cimport cython
from libc.stdint cimport uint64_t


cdef int _kind(object value) except -1

@cython.locals(size=Py_ssize_t)
cdef object _put(bytearray out, object value)

cdef object _put_varint(bytearray out, uint64_t value)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.protocol cimport octets

cdef Py_ssize_t HEAD
cdef int HIGHEST, PERSISTENT, NO_PRIORITY


@cython.locals(message=Message, size=Py_ssize_t, at=Py_ssize_t, p="unsigned char*", data=bytearray)
cpdef bytes pack(list messages)


@cython.locals(message=Message, at=Py_ssize_t, end=Py_ssize_t, address_end=Py_ssize_t, properties_end=Py_ssize_t,
               body_end=Py_ssize_t, index=int, priority=int, p="const unsigned char*")
cpdef list unpack(bytes data)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.protocol cimport octets

cdef Py_ssize_t HEAD
cdef int HIGHEST, PERSISTENT, NO_PRIORITY
cdef Py_ssize_t BATCH_MESSAGES, BATCH_BYTES, LARGE_BODY


@cython.locals(message=Message, portion=list, found=list, size=Py_ssize_t, octets_of=Py_ssize_t)
cpdef list portions(list messages, Py_ssize_t most=*, Py_ssize_t most_bytes=*)


@cython.locals(message=Message)
cpdef bytes pack(list messages)


@cython.locals(message=Message, size=Py_ssize_t, at=Py_ssize_t, p="unsigned char*", data=bytearray)
cdef bytes _pack(list messages, bint is_whole)


@cython.locals(message=Message, at=Py_ssize_t, end=Py_ssize_t, address_end=Py_ssize_t, properties_end=Py_ssize_t,
               body_end=Py_ssize_t, index=int, priority=int, p="const unsigned char*")
cpdef list unpack(bytes data)

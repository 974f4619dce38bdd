cimport cython
from libc.stdint cimport uint32_t, uint64_t

from rabbitlike.protocol cimport octets
from rabbitlike.protocol.properties cimport Properties

cdef int METHOD_FRAME, HEADER_FRAME, BODY_FRAME, DISCARD
cdef uint32_t BASIC_CLASS
cdef uint64_t BODY_SIZE_CAP, MAPPED, MOVED


cdef class Content:
    cdef readonly int number
    cdef public int expecting
    cdef public uint64_t body_size_max
    cdef bytes _publish_arguments
    cdef readonly bytes address
    cdef readonly int bits
    cdef readonly Properties properties
    cdef uint64_t body_size
    cdef bint is_repeated
    cdef uint64_t _remaining
    cdef object _parts

    cdef object on_ack(self, uint64_t delivery_tag, bint multiple)
    cdef object on_nack(self, uint64_t delivery_tag, bint multiple, bint requeue)
    cdef object on_reject(self, uint64_t delivery_tag, bint requeue)
    cdef object on_address(self)
    cdef object on_properties(self)
    cdef object on_publish(self, bytes body)
    cdef object on_part(self)
    @cython.locals(body=bytes)
    cdef Py_ssize_t on_publishes(self, list bodies, Py_ssize_t body_bytes) except -1
    @cython.locals(start=Py_ssize_t, key=Py_ssize_t)
    cdef object take_publish(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end)
    @cython.locals(class_id=uint32_t, weight=uint32_t, body_size=uint64_t)
    cdef object take_header(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t size)
    @cython.locals(remaining=uint64_t)
    cdef object take_body(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t size)
    @cython.locals(arrived=uint64_t)
    cdef object _take_part(self, bytes part)
    cpdef object drop_content(self)

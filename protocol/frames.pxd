cimport cython
from libc.stdint cimport uint32_t, uint64_t

from rabbitlike.protocol cimport octets
from rabbitlike.protocol.content cimport Content

cdef int METHOD_FRAME, HEADER_FRAME, BODY_FRAME, FRAME_END, FRAME_OVERHEAD
cdef uint32_t BASIC_PUBLISH, BASIC_RETURN, BASIC_DELIVER, BASIC_GET_OK, BASIC_ACK, BASIC_REJECT, BASIC_NACK
cdef Py_ssize_t SMALLEST_BUFFER, KEPT_BUFFER, LARGE_BODY


@cython.final
cdef class DeliveryTemplate:
    cdef bytes before
    cdef bytes behind
    cdef bytes between
    cdef readonly Py_ssize_t size


cdef class OutBuffer:
    cdef public bytearray data
    cdef public Py_ssize_t size
    cdef public list held

    @cython.locals(needed=Py_ssize_t, room=Py_ssize_t)
    cpdef object reserve(self, Py_ssize_t size)
    @cython.locals(p="unsigned char*")
    cpdef bytes take(self)
    @cython.locals(p="unsigned char*")
    cpdef object put(self, bytes data)
    @cython.locals(p="unsigned char*", at=Py_ssize_t)
    cpdef object put_settled(self, uint32_t index, uint32_t channel, uint64_t delivery_tag, int bits)
    @cython.locals(p="unsigned char*", at=Py_ssize_t, size=Py_ssize_t)
    cpdef object put_deliver(self, uint32_t channel, bytes consumer_tag, uint64_t delivery_tag, bint redelivered, bytes address,
                             bytes properties, bytes body, Py_ssize_t payload_max)
    @cython.locals(p="unsigned char*", size=Py_ssize_t)
    cpdef object put_like(self, DeliveryTemplate like, uint64_t delivery_tag, bytes body)
    @cython.locals(p="unsigned char*", size=Py_ssize_t)
    cpdef object put_run(self, DeliveryTemplate like, uint64_t delivery_tag, list bodies, Py_ssize_t body_bytes)
    @cython.locals(p="unsigned char*", at=Py_ssize_t, size=Py_ssize_t)
    cpdef object put_get_ok(self, uint32_t channel, uint64_t delivery_tag, bint redelivered, bytes address, uint32_t message_count,
                            bytes properties, bytes body, Py_ssize_t payload_max)
    @cython.locals(p="unsigned char*", at=Py_ssize_t, size=Py_ssize_t)
    cpdef object put_return(self, uint32_t channel, uint32_t code, bytes text, bytes address, bytes properties, bytes body,
                            Py_ssize_t payload_max)
    @cython.locals(p="unsigned char*", at=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, body_size=Py_ssize_t, frames=Py_ssize_t,
                   header_size=Py_ssize_t, is_large=bint)
    cdef object _put_content(self, uint32_t channel, bytes properties, bytes body, Py_ssize_t payload_max)


cdef class FrameReader:
    cdef public Py_ssize_t at
    cdef public Py_ssize_t payload_max
    cdef public uint32_t method_index
    cdef public dict channels
    cdef readonly int current_number
    cdef public bint is_stalled
    cdef bint _is_known
    cdef Content _current
    cdef bint _may_repeat
    cdef bytes _head
    cdef bytes _between
    cdef Py_ssize_t _publish_at

    cpdef object on_method(self, Content channel, bytes payload)
    cpdef object on_odd_frame(self, int kind, int number, bytes payload)
    cpdef object forget_current(self)
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, size=Py_ssize_t, following=Py_ssize_t, kind=int, number=int,
                   channel=Content, size_at=Py_ssize_t)
    cpdef object feed(self, bytearray data, Py_ssize_t end)
    @cython.locals(channel=Content, following=Py_ssize_t, bodies=list, largest=Py_ssize_t, count=Py_ssize_t,
                   around=Py_ssize_t, taken=Py_ssize_t, left=Py_ssize_t)
    cdef bint _repeats(self, const unsigned char* p, Py_ssize_t at, Py_ssize_t end) except -1
    cdef object _lose_framing(self, const unsigned char* p, Py_ssize_t at, int kind, Py_ssize_t size)
    @cython.locals(index=uint32_t)
    cdef object _take_method(self, Content channel, const unsigned char* p, Py_ssize_t at, Py_ssize_t size)

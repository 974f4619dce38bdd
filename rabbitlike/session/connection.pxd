cimport cython
from libc.stdint cimport int64_t, uint32_t

from rabbitlike.protocol cimport octets
from rabbitlike.protocol.content cimport Content
from rabbitlike.session.flow cimport Flow

cdef int METHOD_FRAME, HEARTBEAT_FRAME, DISCARD, FRAME_OVERHEAD


cdef class Connection(Flow):
    cdef readonly object settings
    cdef readonly object peer
    cdef readonly str name
    cdef readonly int64_t connected_at_ms
    cdef readonly bytes leftover
    cdef public object state
    cdef readonly int64_t recv_oct
    cdef readonly int64_t recv_cnt
    cdef public int64_t frame_max
    cdef public int channel_max
    cdef public int heartbeat
    cdef public str mechanism
    cdef public object user
    cdef public object client_properties
    cdef public dict capabilities
    cdef readonly bint is_blocked
    cdef bint _ignores_input
    cdef bint _is_released
    cdef object _close_timer
    cdef set _used_numbers

    @cython.locals(size=Py_ssize_t, fresh_bytes=int64_t)
    cpdef object receive(self, bytearray data, Py_ssize_t end)
    @cython.locals(start=Py_ssize_t)
    cdef object _handle(self, bytearray data, Py_ssize_t end)
    cpdef object handle_leftover(self)
    cdef bint _take_header(self, bytearray data, Py_ssize_t end) except -1
    @cython.locals(recorded=int64_t)
    cpdef object on_method(self, Content channel, bytes payload)
    cpdef object on_odd_frame(self, int kind, int number, bytes payload)
    cdef object _on_connection_frame(self, int kind, bytes payload)
    @cython.locals(channel=Content, index=uint32_t)
    cdef object _on_channel_frame(self, int kind, int number, bytes payload)
    cdef object _on_closed_channel(self, int kind, int number, bytes payload)
    cdef object _note_method(self, bytes payload)
    cpdef object open_channel(self, int number)
    cpdef object drop_channel(self, int number)
    cpdef object release(self, object then=*)

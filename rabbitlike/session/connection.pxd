cimport cython
from libc.stdint cimport int64_t, uint32_t

from rabbitlike.broker.journal cimport Journal
from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol cimport octets
from rabbitlike.protocol.content cimport Content
from rabbitlike.protocol.frames cimport FrameReader
from rabbitlike.session.outlet cimport Outlet
from rabbitlike.session.publisher cimport Publisher

cdef int METHOD_FRAME, HEARTBEAT_FRAME, DISCARD
cdef Py_ssize_t UNREAD_ANSWERS


cdef class Connection(FrameReader):
    cdef readonly object broker
    cdef readonly Turn turn
    cdef readonly object settings
    cdef readonly Journal journal
    cdef readonly object wire
    cdef readonly object peer
    cdef readonly str name
    cdef readonly int64_t connected_at_ms
    cdef readonly Outlet outlet
    cdef readonly bytes leftover
    cdef public object state
    cdef readonly int64_t recv_oct
    cdef readonly int64_t recv_cnt
    cdef readonly int64_t send_oct
    cdef readonly int64_t send_cnt
    cdef public int64_t frame_max
    cdef public int channel_max
    cdef public int heartbeat
    cdef public str mechanism
    cdef public object user
    cdef public object vhost
    cdef public object client_properties
    cdef public dict capabilities
    cdef readonly bint is_blocked
    cdef bint _is_paused
    cdef int64_t _unread
    cdef set _holds
    cdef bint _is_deaf
    cdef bint _is_released
    cdef object _close_timer
    cdef list _answering
    cdef set _used_numbers
    cdef int64_t _hold_until
    cdef bint _is_hanging_up
    cdef bint _is_left_to_client

    @cython.locals(size=Py_ssize_t)
    cpdef object receive(self, bytearray data, Py_ssize_t end)
    @cython.locals(start=Py_ssize_t)
    cdef object _handle(self, bytearray data, Py_ssize_t end)
    cdef bint _take_header(self, bytearray data, Py_ssize_t end) except -1
    @cython.locals(recorded=int64_t)
    cpdef object on_method(self, Content channel, bytes payload)
    cpdef object on_odd_frame(self, int kind, int number, bytes payload)
    cdef object _on_connection_frame(self, int kind, bytes payload)
    @cython.locals(channel=Content, index=uint32_t)
    cdef object _on_channel_frame(self, int kind, int number, bytes payload)
    cdef object _on_closed_channel(self, int kind, int number, bytes payload)
    cdef object _note_method(self, bytes payload)
    cpdef object send(self, object method)
    cpdef object put(self, bytes frame)
    cdef object _write(self, bytes data)
    cpdef object answer_later(self, Publisher channel)
    @cython.locals(outlet=Outlet, channel=Publisher)
    cpdef object flush(self)
    cdef bint _is_holding(self) except -1
    cpdef object open_channel(self, int number)
    cpdef object drop_channel(self, int number)
    cpdef object release(self)

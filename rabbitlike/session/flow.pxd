cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.journal cimport Journal
from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.frames cimport FrameReader
from rabbitlike.session.outlet cimport Outlet
from rabbitlike.session.publisher cimport Publisher
from rabbitlike.session.throttle cimport Throttle

cdef Py_ssize_t UNREAD_ANSWERS
cdef int STEPS_PER_METHOD


cdef class Flow(FrameReader):
    cdef readonly object broker
    cdef readonly Turn turn
    cdef readonly Journal journal
    cdef readonly object wire
    cdef readonly Outlet outlet
    cdef public object vhost
    cdef readonly int64_t send_oct
    cdef readonly int64_t send_cnt
    cdef list _answering
    cdef int64_t _hold_until
    cdef int64_t _deliver_after
    cdef bint _is_hanging_up
    cdef bint _is_left_to_client
    cdef bint _is_paused
    cdef bint _is_served
    cdef int64_t _unread
    cdef public bint is_lost
    cdef int _works
    cdef set _holds
    cdef public Py_ssize_t read_bytes
    cdef readonly Throttle throttle

    cpdef object send(self, object method)
    cpdef object put(self, bytes frame)
    cpdef object answer_later(self, Publisher channel)
    @cython.locals(outlet=Outlet, channel=Publisher)
    cpdef object flush(self)
    cdef object _write(self, bytes data)
    cdef bint _is_holding(self) except -1
    cpdef int64_t fresh_bytes(self)
    cpdef object end_turn(self, int64_t fresh_bytes)
    cdef object _published(self, int64_t fresh_bytes)
    cpdef object stall_if_unread(self)
    cpdef bint serve_before(self, Py_ssize_t size) except -1
    cpdef object handle_leftover(self)

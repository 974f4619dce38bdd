cimport cython
from libc.stdint cimport int32_t, int64_t

from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.properties cimport message_id_of

cdef int64_t HOUR_MS
cdef int RECENT, CONFIRM, REFUSED


@cython.final
cdef class Rows:
    cdef readonly Py_ssize_t capacity
    cdef readonly int64_t first_seq
    cdef readonly Py_ssize_t count
    cdef readonly int64_t hour_end_ms
    cdef readonly list places
    cdef readonly dict addresses
    cdef readonly dict tags
    cdef readonly bytearray ids
    cdef readonly dict columns
    cdef public bint is_busy
    cdef int64_t[::1] _ts_ms
    cdef int64_t[::1] _position
    cdef int64_t[::1] _wait_ms
    cdef int64_t[::1] _proc_ms
    cdef int32_t[::1] _place
    cdef int32_t[::1] _address
    cdef int32_t[::1] _tag
    cdef int32_t[::1] _id_end
    cdef int32_t[::1] _size
    cdef int32_t[::1] _attempts
    cdef int32_t[::1] _priority
    cdef signed char[::1] _event
    cdef signed char[::1] _reason


cdef class Place:
    cdef readonly str vhost
    cdef readonly str queue
    cdef int64_t _first_seq
    cdef int32_t _code


@cython.final
cdef class Events:
    cdef Turn _turn
    cdef Py_ssize_t _capacity
    cdef int64_t _interval_ms
    cdef int64_t _next_seq
    cdef Rows _rows
    cdef object _timer
    cdef bytes _last_properties
    cdef bytes _last_id
    cdef object _awaiting
    cdef public object export
    cdef readonly int64_t lost
    cdef readonly object recent
    cdef bytes _last_address
    cdef int32_t _last_address_code
    cdef str _last_tag
    cdef int32_t _last_tag_code
    cdef list _spare

    @cython.locals(rows=Rows, at=Py_ssize_t)
    cdef object add(
        self, int event, Place place, bytes address, bytes properties, int64_t position, int priority, Py_ssize_t size,
        int attempts, str tag, int64_t wait_ms, int64_t proc_ms, int reason
    )
    cpdef object confirm(
        self, Place place, bytes address, bytes properties, int priority, Py_ssize_t size, int64_t number,
        bint accepted
    )
    @cython.locals(rows=Rows)
    cdef Rows _begin(self)
    cdef object _find_address(self, Rows rows, bytes address)
    cdef object _find_tag(self, Rows rows, str tag)

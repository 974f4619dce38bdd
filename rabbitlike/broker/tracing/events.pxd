cimport cython
from libc.stdint cimport int32_t, int64_t

from rabbitlike.broker.message cimport Message
from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol cimport octets
from rabbitlike.protocol.properties cimport message_id_at

cdef int64_t HOUR_MS
cdef int RECENT, CONFIRM, DELIVER, ENQUEUE, PUBLISH, REFUSED, REMEMBERED, CELLS
cdef int64_t MOST_ATTEMPTS


@cython.final
cdef class Rows:
    cdef readonly Py_ssize_t capacity
    cdef readonly int64_t first_seq
    cdef readonly Py_ssize_t count
    cdef readonly int64_t hour_end_ms
    cdef readonly list places
    cdef readonly dict steps
    cdef readonly dict addresses
    cdef readonly dict tags
    cdef readonly list time_starts
    cdef readonly list times_ms
    cdef readonly bytearray ids
    cdef readonly object cells
    cdef public bint is_busy
    cdef int64_t _now_ms
    cdef Py_ssize_t _ids_end
    cdef Py_ssize_t _id_rows
    cdef int64_t[::1] _cells
    cdef int32_t[::1] _id_ends

    @cython.locals(size=Py_ssize_t, p="unsigned char*")
    cdef object add_id(self, Py_ssize_t at, bytes properties, Py_ssize_t place)
    @cython.locals(at=Py_ssize_t)
    cdef object _fill_ids(self, Py_ssize_t count)


cdef class Place:
    cdef readonly str vhost
    cdef readonly str queue
    cdef int64_t _first_seq
    cdef int64_t _code


@cython.final
cdef class Unconfirmed:
    cdef int64_t number
    cdef Place place
    cdef bytes address
    cdef bytes properties
    cdef int64_t priority
    cdef Py_ssize_t size
    cdef Py_ssize_t count


@cython.final
cdef class Events:
    cdef Turn _turn
    cdef Py_ssize_t _capacity
    cdef int64_t _interval_ms
    cdef int64_t _next_seq
    cdef Rows _rows
    cdef object _timer
    cdef bytes _last_properties
    cdef Py_ssize_t _last_id_at
    cdef object _awaiting
    cdef Unconfirmed _newest
    cdef public object export
    cdef readonly int64_t lost
    cdef readonly object recent
    cdef bytes _last_address
    cdef int64_t _last_address_code
    cdef str _last_tag
    cdef int64_t _last_tag_code
    cdef list _spare
    cdef int64_t[::1] _keys
    cdef int64_t[::1] _steps

    @cython.locals(rows=Rows, at=Py_ssize_t, now_ms=int64_t, key=int64_t, slot=Py_ssize_t, tail=int64_t, cell=Py_ssize_t)
    cdef object add(
        self, int event, Place place, bytes address, bytes properties, int64_t position, int64_t priority,
        Py_ssize_t size, int64_t attempts, str tag, int64_t took_ms, int64_t reason
    )
    cdef object add_message(self, int event, Place place, Message message, str tag, int64_t took_ms, int64_t reason)
    @cython.locals(message=Message, like=Message)
    cdef object add_run(self, int event, Place place, list messages, str tag, int64_t took_ms, int64_t reason)
    @cython.locals(message=Message, back=int, is_like=bint, size=Py_ssize_t, before=Py_ssize_t)
    cdef object add_entries(self, Place vhost, Place queue, list messages)
    @cython.locals(rows=Rows, cell=Py_ssize_t, like=Py_ssize_t)
    cdef bint _repeat(self, int back, int64_t position, int64_t took_ms) except -1
    cdef object _find_step(self, Rows rows, int64_t key, Py_ssize_t slot)
    @cython.locals(last=Unconfirmed)
    cpdef object confirm(
        self, Place place, bytes address, bytes properties, int priority, Py_ssize_t size, int64_t number,
        bint accepted, Py_ssize_t count
    )
    @cython.locals(alike=Unconfirmed)
    cpdef object committed(self, int64_t number)
    @cython.locals(rows=Rows, slot=Py_ssize_t)
    cdef Rows _begin(self)
    cdef object _find_address(self, Rows rows, bytes address)
    cdef object _find_tag(self, Rows rows, str tag)
    cdef object _confirm_all(self, Unconfirmed alike, int reason)
    @cython.locals(at=Py_ssize_t)
    cdef object _add_confirms(
        self, Place place, bytes address, bytes properties, int64_t priority, Py_ssize_t size, int reason, Py_ssize_t count
    )

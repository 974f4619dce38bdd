cimport cython
from libc.stdint cimport uint32_t

from rabbitlike.protocol cimport octets

cdef uint32_t CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY, CORRELATION_ID, REPLY_TO, EXPIRATION
cdef uint32_t MESSAGE_ID, TIMESTAMP, TYPE, USER_ID, APP_ID, CLUSTER_ID, NOT_A_FIELD, MORE_FLAGS
cdef int PERSISTENT, LENGTH_GIVEN, UNKNOWN_KIND, ARRAY_KIND, TABLE_KIND, MAX_DEPTH
cdef bytes KIND_SIZES


@cython.locals(kind=int, size=Py_ssize_t)
cdef bint is_whole(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, bint with_keys, int depth) except -1


@cython.final
cdef class Properties:
    cdef readonly bytes raw
    cdef readonly uint32_t flags
    cdef readonly bint persistent
    cdef readonly int priority
    cdef readonly bint has_headers
    cdef Py_ssize_t _start
    cdef Py_ssize_t _headers_at
    cdef Py_ssize_t _headers_end

    @cython.locals(p="const unsigned char*", end=Py_ssize_t, at=Py_ssize_t, rest=uint32_t, bit=uint32_t)
    cdef object _walk(self, bint is_checked)
    @cython.locals(p="const unsigned char*", end=Py_ssize_t, at=Py_ssize_t, word=uint32_t)
    cdef Py_ssize_t _skip_flag_words(self) except -1
    @cython.locals(p="const unsigned char*", start=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t _walk_headers(self, Py_ssize_t at, Py_ssize_t end, bint is_checked) except -1
    @cython.locals(p="const unsigned char*", flags=uint32_t, bit=uint32_t, at=Py_ssize_t)
    cdef Py_ssize_t _place(self, uint32_t field) except -1
    @cython.locals(at=Py_ssize_t)
    cdef object _shortstr(self, uint32_t field)
    cpdef bint mentions(self, bytes key) except -1
    @cython.locals(
        p="const unsigned char*", k="const unsigned char*", found=Py_ssize_t, size=Py_ssize_t, at=Py_ssize_t,
        end=Py_ssize_t, length=Py_ssize_t
    )
    cpdef Py_ssize_t header_at(self, bytes key) except -1
    @cython.locals(p="const unsigned char*", at=Py_ssize_t, end=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t)
    cpdef dict header_fields(self)


cdef Py_ssize_t after_field(const unsigned char* p, uint32_t bit, Py_ssize_t at) except -1
@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t after_value(const unsigned char* p, Py_ssize_t at) except -1
@cython.locals(index=Py_ssize_t)
cdef bint is_same(const unsigned char* p, Py_ssize_t at, const unsigned char* k, Py_ssize_t size) noexcept
@cython.locals(p="const unsigned char*", flags=uint32_t, bit=uint32_t, at=Py_ssize_t)
cpdef Py_ssize_t message_id_at(bytes raw) except -1

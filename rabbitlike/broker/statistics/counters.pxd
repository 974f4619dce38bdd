cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class Counters:
    cdef public int64_t active_at_ms
    cdef public int64_t publish
    cdef public int64_t publish_in
    cdef public int64_t publish_out
    cdef public int64_t confirm
    cdef public int64_t return_unroutable
    cdef public int64_t drop_unroutable
    cdef public int64_t deliver
    cdef public int64_t deliver_no_ack
    cdef public int64_t get
    cdef public int64_t get_no_ack
    cdef public int64_t get_empty
    cdef public int64_t redeliver
    cdef public int64_t ack
    cdef public int64_t disk_reads
    cdef public int64_t disk_writes


@cython.final
cdef class Timing:
    cdef int64_t _buckets[24]
    cdef public int64_t at_once
    cdef readonly int64_t total_ms

    @cython.locals(at=int, bound_ms=int64_t)
    cpdef object add(self, int64_t took_ms, int64_t count=*)
    @cython.locals(at=int)
    cpdef object take_over(self, Timing other)


@cython.final
cdef class Sizes:
    cdef int64_t _bounds[8]
    cdef int64_t _buckets[9]
    cdef readonly int64_t total

    @cython.locals(at=int)
    cpdef object add(self, int64_t size, int64_t count=*)
    @cython.locals(body=bytes, size=Py_ssize_t, count=Py_ssize_t)
    cdef object add_run(self, list bodies)

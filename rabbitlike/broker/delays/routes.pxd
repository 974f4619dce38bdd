cimport cython
from libc.stdint cimport int64_t


cdef class Source:
    cdef readonly str name
    cdef readonly object number
    cdef public int64_t count


cdef class Route:
    cdef readonly Source source
    cdef readonly str routing_key
    cdef public int64_t generation
    cdef public list queues
    cdef public list inlets


cdef class Routes:
    cdef object _renamed
    cdef dict _routes
    cdef readonly dict by_name
    cdef readonly list by_number
    cdef readonly int64_t generation

    @cython.locals(route=Route)
    cpdef Route of(self, bytes address)

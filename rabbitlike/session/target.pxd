cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.counters cimport Counters
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.trail cimport Trail


@cython.final
cdef class Target:
    cdef public object exchange
    cdef public Counters counters
    cdef public str routing_key
    cdef public int64_t generation
    cdef public Counters pair
    cdef public list inlets
    cdef public bint is_plain
    cdef public list queues
    cdef public bint is_stored
    cdef public bint is_reply
    cdef public object reply
    cdef public bint is_topic_checked
    cdef public Trail trail


@cython.locals(exchange_name=str, routing_key=str, target=Target)
cpdef Target find_target(object connection, object vhost, bytes address, object properties)

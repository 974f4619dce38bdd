cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.statistics.counters cimport Counters
from rabbitlike.broker.message cimport Message, make_message
from rabbitlike.broker.queues.queue cimport Queue


@cython.locals(queue=Queue, message=Message, inlet=Counters, at=Py_ssize_t, accepted=bint)
cpdef bint deposit(
    list queues,
    list inlets,
    bytes address,
    bytes properties,
    bytes body,
    bint persistent,
    int priority,
    int64_t now_ms,
    int64_t expires_at_ms,
    list refused,
    bint is_promised=*,
) except -1
cpdef list deposit_copies(list queues, Message message)
@cython.locals(queue=Queue)
cpdef list inlets_of(list queues, object exchange)

cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.counters cimport Counters
from rabbitlike.broker.message cimport Message, make_message
from rabbitlike.broker.queues.queue cimport Queue


@cython.locals(queue=Queue, message=Message, inlet=Counters, refused=list)
cpdef list deposit(
    list queues,
    list inlets,
    bytes address,
    bytes properties,
    bytes body,
    bint persistent,
    int priority,
    int64_t now_ms,
    int64_t expires_at_ms,
)
cpdef list deposit_copies(list queues, list inlets, Message message)
@cython.locals(queue=Queue)
cpdef list inlets_of(list queues, object exchange)

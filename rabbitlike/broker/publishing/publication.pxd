cimport cython
from libc.stdint cimport int64_t, uint32_t

from rabbitlike.broker.statistics.counters cimport Counters
from rabbitlike.broker.delays.times cimport is_timed, read_due
from rabbitlike.broker.message cimport Message, make_message
from rabbitlike.broker.queues.deposit cimport deposit, inlets_of
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.tracing.tracer cimport Tracer
from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.properties cimport Properties

cdef uint32_t REPLY_TO


@cython.final
cdef class Origin:
    cdef readonly object vhost
    cdef readonly Turn turn
    cdef public object user
    cdef readonly tuple client
    cdef readonly Counters counters
    cdef readonly Counters totals
    cdef readonly dict publishes
    cdef readonly bint forgets_deaths

    @cython.locals(own=Counters, exchange=Counters, pair=Counters)
    cdef object count(self, Target target, Py_ssize_t count, Py_ssize_t copies, Py_ssize_t confirmed)
    cdef object count_unroutable(self, Target target, bint mandatory)


@cython.final
cdef class Target:
    cdef readonly object exchange
    cdef readonly Counters counters
    cdef readonly str routing_key
    cdef readonly int64_t generation
    cdef readonly Counters pair
    cdef readonly list inlets
    cdef readonly bint is_plain
    cdef readonly list queues
    cdef readonly bint is_stored
    cdef readonly bint is_reply
    cdef readonly object reply
    cdef readonly bint is_topic_checked
    cdef readonly Tracer tracer


@cython.locals(exchange_name=str, routing_key=str, target=Target)
cpdef Target find_target(Origin origin, bytes address, Properties properties)
@cython.locals(queue=Queue)
cpdef bint is_any_durable(list queues) except -1


@cython.final
cdef class Publication:
    cdef readonly Target target
    cdef readonly list queues
    cdef readonly bytes address
    cdef readonly bytes properties
    cdef readonly bytes body
    cdef readonly bint persistent
    cdef readonly int priority
    cdef readonly int64_t expiration_ms
    cdef readonly bint mandatory
    cdef readonly int64_t due_ms
    cdef readonly object delays
    cdef readonly object deduplication
    cdef readonly bint is_dropped
    cdef public bint is_promised
    cdef readonly str refusal
    cdef readonly list dead_lettering_queues
    cdef readonly Py_ssize_t copies
    cdef readonly Tracer tracer

    @cython.locals(queue=Queue)
    cpdef object look_up(self, object queues)
    cpdef bint is_stored(self) except -1
    cpdef bint is_unroutable(self) except -1
    @cython.locals(target=Target, accepted=bint)
    cpdef bint deposit(self, Origin origin, bint is_confirmed) except -1
    cdef bint _reply(self, Target target) except -1
    @cython.locals(now_ms=int64_t, accepted=bint)
    cdef bint _deposit_new(self, Origin origin) except -1
    @cython.locals(
        address=bytes, properties=bytes, body=bytes, target=Target, queues=list, inlets=list, expires_at_ms=int64_t,
        accepted=bint, queue=Queue, message=Message
    )
    cdef bint _deposit(self, int64_t now_ms) except -1
    cdef object _tell(self, object vhost)


@cython.locals(
    expiration_ms=int64_t, given=Properties, keys=list, due_ms=int64_t, delayed=Properties, queues=list, seen=Message,
    publication=Publication, conforms=bint
)
cpdef Publication check(
    Origin origin, Target target, bytes address, Properties properties, bytes body, bint mandatory, object reply_name
)

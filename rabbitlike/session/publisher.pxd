cimport cython
from libc.stdint cimport int64_t, uint32_t

from rabbitlike.broker.statistics.counters cimport Counters, Sizes
from rabbitlike.broker.delays.times cimport is_timed, negated, plain_delay
from rabbitlike.broker.delays.delays cimport Delays
from rabbitlike.broker.journal cimport Journal
from rabbitlike.broker.message cimport make_message
from rabbitlike.broker.publishing.publication cimport Origin, Publication, Target, check, find_target
from rabbitlike.broker.queues.deposit cimport deposit
from rabbitlike.broker.queues.queue cimport Queue
from rabbitlike.broker.queues.runs cimport admits_run, enqueue_run
from rabbitlike.broker.tracing.tracer cimport Tracer
from rabbitlike.broker.turn cimport Turn
from rabbitlike.protocol.content cimport Content
from rabbitlike.protocol.properties cimport Properties
from rabbitlike.session.confirms cimport Confirms
from rabbitlike.session.outlet cimport Outlet

cdef int MANDATORY, IMMEDIATE, DISCARD, TARGETS_KEPT, FEW_TARGETS
cdef int64_t LATEST_MS, MESSAGE_COST
cdef uint32_t EXPIRATION, HEADERS, REPLY_TO, USER_ID, WATCHED


cdef class Publisher(Content):
    cdef readonly object connection
    cdef readonly object vhost
    cdef readonly Turn turn
    cdef readonly Outlet outlet
    cdef readonly Journal journal
    cdef public Confirms confirms
    cdef public object transaction
    cdef public object reply_consumer
    cdef readonly Counters counters
    cdef readonly Counters totals
    cdef readonly Origin origin
    cdef readonly dict publishes
    cdef Sizes _sizes
    cdef Target _target
    cdef dict _targets
    cdef int64_t _targets_generation
    cdef Tracer _tracer
    cdef Py_ssize_t _traced_size
    cdef bint _is_watched
    cdef int64_t _delay_ms
    cdef bint _answers_due
    cdef bint _is_awaiting

    cdef object on_address(self)
    cdef object on_properties(self)
    @cython.locals(target=Target, properties=Properties, accepted=bint, number=int64_t, copies=Py_ssize_t, mandatory=bint)
    cdef object on_publish(self, bytes body)
    cdef object on_part(self)
    @cython.locals(target=Target, properties=Properties, queue=Queue, body=bytes, number=int64_t, count=Py_ssize_t,
                   inlet=Counters, messages=list, taken=Py_ssize_t)
    cdef Py_ssize_t on_publishes(self, list bodies, Py_ssize_t body_bytes) except -1
    @cython.locals(queue=Queue, memory_bytes=int64_t)
    cdef bint _admits_run(self, Target target, Py_ssize_t count, Py_ssize_t body_bytes) except -1
    @cython.locals(is_due=bint)
    cdef object _published(self, bint accepted, int64_t number, Py_ssize_t count)
    @cython.locals(raw=bytes, priority=int)
    cdef object _note_confirm(self, bint accepted, int64_t number)
    cdef bint _needs_care(self) except -1
    cdef bint _may_delay(self, Target target) except -1
    @cython.locals(properties=Properties, number=int64_t, due_ms=int64_t, raw=bytes, delays=Delays)
    cdef object _publish_delayed(self, Target target, bytes body)
    @cython.locals(target=Target)
    cdef Target _find_target(self)
    @cython.locals(publication=Publication, mandatory=bint, number=int64_t)
    cdef object _publish_carefully(self, Target target, bytes body)
    @cython.locals(accepted=bint)
    cpdef bint deposit(self, Publication publication) except -1
    cdef object _return(self, bytes address, bytes properties, bytes body)
    @cython.locals(before=int64_t)
    cpdef object write_answers(self)

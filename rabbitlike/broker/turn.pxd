cimport cython
from libc.stdint cimport int64_t

from rabbitlike.broker.ports cimport Pumped

cdef int64_t FEW_NS, INPUT_NS, TURN_NS, WORK_NS, SHARE_NS
cdef int STRIDE, STEPS_PER_CALL, STORE_MS, MOST_LATER


@cython.final
cdef class Turn:
    cdef object _clock
    cdef object _ticks_ns
    cdef public int64_t now_ms
    cdef public bint alarmed
    cdef public int64_t generation
    cdef public list congested
    cdef list _queues
    cdef list _clients
    cdef list _later
    cdef object _left_queues
    cdef object _left_clients
    cdef object _left_later
    cdef object _works
    cdef object _polls
    cdef public object is_store_behind
    cdef list _begun
    cdef int64_t _later_left
    cdef int64_t _later_done
    cdef bint _is_scheduled
    cdef int64_t _began_ns
    cdef int64_t _deadline_ns
    cdef int _steps_left
    cdef public int stride
    cdef readonly list counts
    cdef readonly int64_t total_ns
    cdef public int64_t longest_ns

    cpdef object begin(self)
    cpdef object renew(self)
    cpdef object touch(self, Pumped queue)
    @cython.locals(last=Py_ssize_t)
    cpdef object note_congestion(self, Pumped queue)
    cpdef object mark(self, object client)
    cpdef object later(self, object work)
    cpdef bint is_spent(self, int steps=*) except -1
    cpdef bint is_late(self, int steps=*) except -1
    cpdef object look(self)
    cpdef bint serve(self) except -1
    @cython.locals(done=Py_ssize_t)
    cpdef bint finish(self) except -1
    @cython.locals(queues=list, done=Py_ssize_t)
    cdef object _pump(self)
    @cython.locals(works=list, done=Py_ssize_t)
    cdef bint _do_later(self) except -1
    cdef bint _is_over(self) except -1
    cdef object _leave_rest(self)
    cdef object _leave_later(self, list works)
    @cython.locals(took_ns=int64_t, at=Py_ssize_t)
    cdef object _note_end(self)
    cdef object _schedule(self, int delay_ms=*)
    cdef object _do_some(self, object works, int64_t time_ns)
    cdef object _allow(self, int64_t time_ns)
    cdef object _guard(self, object work)

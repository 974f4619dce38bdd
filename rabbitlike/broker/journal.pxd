from libc.stdint cimport int64_t


cdef class Journal:
    cdef readonly int64_t number
    cdef public int64_t committed
    cdef public bint is_failing
    cdef readonly bint is_held
    cdef int64_t _held_number
    cdef object _holders
    cdef readonly int64_t recorded
    cdef public int64_t fresh_bytes
    cdef public int64_t writing_bytes
    cdef int64_t _last_batch_id
    cdef int64_t _taken_batch_id
    cdef readonly int64_t written_batch_id
    cdef list _logs
    cdef list _writing
    cdef object _work
    cdef dict _records
    cdef object _wake

    cpdef int64_t next_batch_id(self)
    cpdef object touch(self, object log)

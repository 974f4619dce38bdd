from rabbitlike.broker.message cimport Message
from rabbitlike.broker.ports cimport Subscriber


cdef class Trail:
    cdef readonly str queue
    cdef readonly object firehose

    cpdef object delivered(self, Message message, Subscriber consumer)

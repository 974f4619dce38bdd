cimport cython
from libc.stdint cimport uint32_t

from rabbitlike.protocol cimport octets


@cython.locals(data=bytes, start=Py_ssize_t, end=Py_ssize_t)
cpdef tuple decode(object raw, Py_ssize_t at=*)
@cython.locals(length=uint32_t)
cdef Py_ssize_t _length(bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
@cython.locals(values=dict, kinds=dict, key=str, kind=str, key_end=Py_ssize_t)
cdef object _decode_table(bytes raw, Py_ssize_t at, Py_ssize_t end, int depth)
@cython.locals(kind=str)
cdef object _decode_array(bytes raw, Py_ssize_t at, Py_ssize_t end, int depth)
cdef str _letter(int octet)
@cython.locals(start=Py_ssize_t, stop=Py_ssize_t)
cdef tuple _decode_value(bytes raw, str kind, Py_ssize_t at, Py_ssize_t end, int depth)
@cython.locals(start=Py_ssize_t, name=bytes)
cdef object _encode_table(bytearray out, object table, int depth)
@cython.locals(start=Py_ssize_t, index=Py_ssize_t)
cdef object _encode_array(bytearray out, object array, int depth)
@cython.locals(kind=str)
cdef object _encode_value(bytearray out, str known, object value, int depth)
cdef str _kind_for(str known, object value)
cdef str _family(object value)
cdef bint _suits(str kind, object value) except -1
cdef str _infer(object value)

# Primitives for loops over rows, as inline C. The pure twin is native.py: the two must do the same.

from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy


cdef extern from "Python.h":
    void* let_go "PyEval_SaveThread"()
    void take_back "PyEval_RestoreThread"(void* lock)


cdef inline void put_u32(unsigned char[::1] out, Py_ssize_t at, uint64_t value) noexcept nogil:
    out[at] = value & 0xFF
    out[at + 1] = (value >> 8) & 0xFF
    out[at + 2] = (value >> 16) & 0xFF
    out[at + 3] = (value >> 24) & 0xFF


cdef inline uint64_t mix(unsigned char[::1] octets, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    cdef uint64_t found = <uint64_t>size
    cdef uint64_t word
    while size > 0:
        word = 0
        memcpy(&word, &octets[start], 8 if size > 8 else size)
        found = (found ^ word) * <uint64_t>0x9E3779B97F4A7C15
        found ^= found >> 29
        start += 8
        size -= 8
    return found


cdef inline bint same(unsigned char[::1] octets, Py_ssize_t at, Py_ssize_t other, Py_ssize_t size) noexcept nogil:
    return memcmp(&octets[at], &octets[other], size) == 0


cdef inline void copy(
    unsigned char[::1] out, Py_ssize_t at, unsigned char[::1] octets, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(&out[at], &octets[start], size)

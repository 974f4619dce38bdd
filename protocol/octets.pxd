# Octets in a buffer, as inline C. The pure twin is octets.py: the two must do the same.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef inline uint32_t get_u16(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (<uint32_t>p[at] << 8) | p[at + 1]


cdef inline uint32_t get_u32(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (<uint32_t>p[at] << 24) | (<uint32_t>p[at + 1] << 16) | (<uint32_t>p[at + 2] << 8) | p[at + 3]


cdef inline uint64_t get_u64(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (<uint64_t>get_u32(p, at) << 32) | get_u32(p, at + 4)


cdef inline void put_u16(unsigned char* p, Py_ssize_t at, uint32_t value) noexcept nogil:
    p[at] = (value >> 8) & 0xFF
    p[at + 1] = value & 0xFF


cdef inline void put_u32(unsigned char* p, Py_ssize_t at, uint32_t value) noexcept nogil:
    p[at] = value >> 24
    p[at + 1] = (value >> 16) & 0xFF
    p[at + 2] = (value >> 8) & 0xFF
    p[at + 3] = value & 0xFF


cdef inline void put_u64(unsigned char* p, Py_ssize_t at, uint64_t value) noexcept nogil:
    put_u32(p, at, <uint32_t>(value >> 32))
    put_u32(p, at + 4, <uint32_t>value)


cdef inline void put_bytes(unsigned char* p, Py_ssize_t at, bytes data) noexcept:
    memcpy(p + at, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline void put_part(unsigned char* p, Py_ssize_t at, bytes data, Py_ssize_t start, Py_ssize_t size) noexcept:
    memcpy(p + at, PyBytes_AS_STRING(data) + start, size)


cdef inline (int, int, Py_ssize_t) frame_head(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (p[at], get_u16(p, at + 1), get_u32(p, at + 3))


cdef inline (uint32_t, uint32_t, uint64_t) content_head(const unsigned char* p, Py_ssize_t at) noexcept nogil:
    return (get_u16(p, at), get_u16(p, at + 2), get_u64(p, at + 4))


cdef inline void put_frame_head(unsigned char* p, Py_ssize_t at, uint32_t kind, uint32_t channel, Py_ssize_t size) noexcept nogil:
    p[at] = kind
    put_u16(p, at + 1, channel)
    put_u32(p, at + 3, <uint32_t>size)


cdef inline void put_method_head(unsigned char* p, Py_ssize_t at, uint32_t channel, Py_ssize_t size, uint32_t index) noexcept nogil:
    put_frame_head(p, at, 1, channel, size)
    put_u32(p, at + 7, index)


cdef inline void put_content_head(unsigned char* p, Py_ssize_t at, uint32_t channel, Py_ssize_t size, uint64_t body_size) noexcept nogil:
    put_frame_head(p, at, 2, channel, size)
    put_u32(p, at + 7, 60 << 16)
    put_u64(p, at + 11, body_size)


cdef inline void put_tag(unsigned char* p, Py_ssize_t at, uint64_t delivery_tag, int bits) noexcept nogil:
    put_u64(p, at, delivery_tag)
    p[at + 8] = bits


cdef inline bytes cut(const unsigned char* p, Py_ssize_t at, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char*>p + at, end - at)


cdef inline bint same(const unsigned char* p, Py_ssize_t at, Py_ssize_t size, bytes data) noexcept:
    return size == PyBytes_GET_SIZE(data) and memcmp(p + at, PyBytes_AS_STRING(data), size) == 0


cdef inline Py_ssize_t cut_run(const unsigned char* p, Py_ssize_t at, Py_ssize_t end, bytes head, bytes between,
                               Py_ssize_t largest, list bodies) except -1:
    cdef Py_ssize_t size_at = PyBytes_GET_SIZE(head)
    cdef Py_ssize_t between_size = PyBytes_GET_SIZE(between)
    cdef Py_ssize_t body_at = size_at + 8 + between_size + 4
    cdef Py_ssize_t size
    while end - at > body_at:
        size = get_u32(p, at + body_at - 4)
        if size == 0 or size > largest or end - at - body_at <= size or get_u64(p, at + size_at) != <uint64_t>size:
            break
        if (
            p[at + body_at + size] != 0xCE
            or memcmp(p + at, PyBytes_AS_STRING(head), size_at) != 0
            or memcmp(p + at + size_at + 8, PyBytes_AS_STRING(between), between_size) != 0
        ):
            break
        bodies.append(PyBytes_FromStringAndSize(<const char*>p + at + body_at, size))
        at += body_at + size + 1
    return at


cdef inline void put_like(unsigned char* p, Py_ssize_t at, bytes before, uint64_t tag, bytes behind, bytes between,
                          bytes body) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(body)
    put_bytes(p, at, before)
    at += PyBytes_GET_SIZE(before)
    put_u64(p, at, tag)
    put_bytes(p, at + 8, behind)
    at += 8 + PyBytes_GET_SIZE(behind)
    put_u64(p, at, size)
    put_bytes(p, at + 8, between)
    at += 8 + PyBytes_GET_SIZE(between)
    put_u32(p, at, <uint32_t>size)
    put_bytes(p, at + 4, body)
    p[at + 4 + size] = 0xCE


cdef inline object put_run(unsigned char* p, Py_ssize_t at, bytes before, uint64_t tag, bytes behind, bytes between,
                           list bodies):
    cdef Py_ssize_t each = PyBytes_GET_SIZE(before) + PyBytes_GET_SIZE(behind) + PyBytes_GET_SIZE(between) + 21
    cdef bytes body
    for body in bodies:
        put_like(p, at, before, tag, behind, between, body)
        at += each + PyBytes_GET_SIZE(body)
        tag += 1

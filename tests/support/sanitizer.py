"""AddressSanitizer, which runs in the process if this is the checked build (`make test-checked`).

It knows where an allocation ends, but not how much of a buffer holds received octets: tests tell it.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_PROCESS = ctypes.CDLL(None)

IS_LOADED = hasattr(_PROCESS, "__asan_poison_memory_region")


@contextmanager
def nothing_read_behind(buffer: bytearray, end: int) -> Iterator[None]:
    """A read or write of `buffer[end:]` in the block ends the process, with a report on standard error."""
    if not IS_LOADED:
        yield
        return
    size = len(buffer) - end + 1  # a bytearray has a zero octet after its last one
    behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(buffer)) + end)
    _PROCESS.__asan_poison_memory_region(behind, ctypes.c_size_t(size))
    try:
        yield
    finally:
        _PROCESS.__asan_unpoison_memory_region(behind, ctypes.c_size_t(size))

"""Primitives for loops over rows: the pure twin of ``native.pxd``.

The loops call ``native.put_u32(out, at, value)``. Compiled, that is the inline C of the ``.pxd``; pure, it is the
function here. Both must do the same; this module itself is never compiled.
"""


def let_go() -> object:
    """Release the interpreter lock. No object may be touched until ``take_back``."""
    return None


def take_back(lock: object) -> None:
    """Acquire the interpreter lock again."""


def put_u32(out: bytearray, at: int, value: int) -> None:
    """Write the lower 32 bits, little-endian."""
    out[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")


def mix(octets: bytearray, start: int, size: int) -> int:
    """A hash of the octets. The twins may return different values."""
    return hash(bytes(octets[start : start + size]))


def same(octets: bytearray, at: int, other: int, size: int) -> bool:
    """Whether both places hold the same octets."""
    return octets[at : at + size] == octets[other : other + size]


def copy(out: bytearray, at: int, octets: bytearray, start: int, size: int) -> None:
    out[at : at + size] = octets[start : start + size]

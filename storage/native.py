"""What loops over rows leave to the machine: the pure twin of ``native.pxd``.

The loops say ``native.put_u32(out, at, value)``. Compiled, that is the inline C of the ``.pxd``; pure, it is the
function here. Both must do the same; this module itself is never compiled.
"""


def let_go() -> object:
    """Let other threads run Python meanwhile. Until ``take_back`` no object may be touched."""
    return None


def take_back(lock: object) -> None:
    """Wait for one's turn to run Python again."""


def put_u32(out: bytearray, at: int, value: int) -> None:
    """The lower 32 bits, the lowest octet first."""
    out[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")


def mix(octets: bytearray, start: int, size: int) -> int:
    """A number that is most likely another one for other octets. The twins need not agree on which."""
    return hash(bytes(octets[start : start + size]))


def same(octets: bytearray, at: int, other: int, size: int) -> bool:
    """Are there the same octets in both places?"""
    return octets[at : at + size] == octets[other : other + size]


def copy(out: bytearray, at: int, octets: bytearray, start: int, size: int) -> None:
    out[at : at + size] = octets[start : start + size]

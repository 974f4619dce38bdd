"""The hash of the hashing exchanges: the same on every machine and after every restart."""

from hashlib import blake2b


def hash_octets(octets: bytes) -> int:
    """A 64-bit hash with uniform distribution."""
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")

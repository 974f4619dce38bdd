"""The hash the hashing exchanges share: the same on every machine and after every restart."""

from hashlib import blake2b


def hash_octets(octets: bytes) -> int:
    """64 evenly spread bits."""
    return int.from_bytes(blake2b(octets, digest_size=8).digest(), "big")

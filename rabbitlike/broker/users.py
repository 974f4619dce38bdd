"""Who may log in: names, salted password hashes and tags.

parity: hashes are RabbitMQ's (base64 of a 4-octet salt and the digest of salt + password), so definitions move both
ways. One fast digest is meant: clients that reconnect in storms must not be able to stall the loop.
"""

import base64
import binascii
import hmac
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256, sha512
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"

_DIGESTS: Final = {SHA256: sha256, SHA512: sha512}
_SALT_OCTETS: Final = 4


@dataclass(frozen=True, slots=True)
class User:
    """One user. An empty `password_hash` lets nobody in by password (certificates still work)."""

    name: str
    password_hash: str = field(repr=False)
    hashing_algorithm: str = SHA256
    tags: frozenset[str] = frozenset()

    def accepts(self, password: str) -> bool:
        """Whether `password` is this user's; takes the same time whichever octet differs."""
        salt, digest = _split(self.password_hash)
        return hmac.compare_digest(_digest(salt, password, self.hashing_algorithm), digest)


def hash_password(password: str, algorithm: str = SHA256, salt: bytes | None = None) -> str:
    """The hash to keep for a password."""
    if salt is None:
        salt = os.urandom(_SALT_OCTETS)
    return base64.b64encode(salt + _digest(salt, password, algorithm)).decode("ascii")


def _digest(salt: bytes, password: str, algorithm: str) -> bytes:
    return _DIGESTS[algorithm](salt + password.encode("utf-8", "surrogateescape")).digest()


def _split(password_hash: str) -> tuple[bytes, bytes]:
    octets = base64.b64decode(password_hash)
    return octets[:_SALT_OCTETS], octets[_SALT_OCTETS:]


# Checked when the name is unknown, so that the time taken does not tell which names exist.
_NOBODY: Final = User("", hash_password(""))


class Users:
    """All users by name. Starts with one administrator, unless its name is empty."""

    def __init__(self, default_user: str = "guest", default_password: str = "guest") -> None:
        self._users: dict[str, User] = {}
        if default_user:
            self.add(default_user, default_password, tags=("administrator",))

    def authenticate(self, name: str, password: str) -> User | None:
        """The user, when the password is right. parity: an empty password never is."""
        user = self._users.get(name, _NOBODY)
        if user.accepts(password) and password and user is not _NOBODY:
            return user
        return None

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def add(self, name: str, password: str, *, tags: Iterable[str] = ()) -> User:
        """Create a user, or give an existing one a new password and tags."""
        return self.add_hashed(name, hash_password(password) if password else "", tags=tags)

    def add_hashed(self, name: str, password_hash: str, *, algorithm: str = SHA256, tags: Iterable[str] = ()) -> User:
        """The same from a hash, as definitions carry it. Raises ValueError for one that nothing could match."""
        if algorithm not in _DIGESTS:
            raise ValueError(f"unsupported password hashing algorithm {algorithm!r}")
        if password_hash:
            try:
                octets = base64.b64decode(password_hash, validate=True)
            except binascii.Error:
                raise ValueError("password hash is not base64") from None
            if len(octets) != _SALT_OCTETS + _DIGESTS[algorithm]().digest_size:
                raise ValueError(f"password hash has {len(octets)} octets, which is not {algorithm}")
        user = User(name, password_hash, algorithm, frozenset(tags))
        self._users[name] = user
        return user

    def set_tags(self, name: str, tags: Iterable[str]) -> None:
        self._users[name] = replace(self._users[name], tags=frozenset(tags))

    def delete(self, name: str) -> bool:
        """Whether there was such a user. Permissions and connections are the caller's to end."""
        return self._users.pop(name, None) is not None

    def __contains__(self, name: object) -> bool:
        return name in self._users

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

"""Users: names, salted password hashes, tags and limits.

parity: hashes are RabbitMQ's (base64 of a 4-octet salt and the digest of salt + password), so definitions can be moved
in both directions. A single fast digest is intended: many clients that reconnect at once must not stall the loop.
"""

import base64
import binascii
import hmac
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import md5, sha256, sha512
from typing import Final, cast

from rabbitlike.broker.accounts.limits import NO_LIMITS, OF_USER, Limits, faults
from rabbitlike.broker.terms import Json

log = logging.getLogger(__name__)

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"

# RabbitMQ used MD5 before 3.6: such hashes are accepted, but not created.
_DIGESTS: Final = {SHA256: sha256, SHA512: sha512, MD5: md5}
#: Algorithms for new passwords, by their names in the configuration.
ALGORITHMS: Final = {"sha256": SHA256, "sha512": SHA512}
_SALT_OCTETS: Final = 4


@dataclass(frozen=True, slots=True)
class User:
    """One user. With an empty `password_hash` no password is accepted (certificates still work).

    Immutable: an open connection keeps the tags from its login. parity: limits and permissions are looked up by name,
    so changes apply at once.
    """

    name: str
    password_hash: str = field(repr=False)
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    limits: Limits = field(default_factory=dict, hash=False)

    def accepts(self, password: str) -> bool:
        """Whether `password` is correct; takes the same time whichever octet differs."""
        salt, digest = _split(self.password_hash)
        return hmac.compare_digest(_digest(salt, password, self.hashing_algorithm), digest)


def hash_password(password: str, algorithm: str = SHA256, salt: bytes | None = None) -> str:
    """The hash to store for a password."""
    if salt is None:
        salt = os.urandom(_SALT_OCTETS)
    return base64.b64encode(salt + _digest(salt, password, algorithm)).decode("ascii")


def _digest(salt: bytes, password: str, algorithm: str) -> bytes:
    return _DIGESTS[algorithm](salt + password.encode("utf-8", "surrogateescape")).digest()


def _split(password_hash: str) -> tuple[bytes, bytes]:
    octets = base64.b64decode(password_hash)
    return octets[:_SALT_OCTETS], octets[_SALT_OCTETS:]


def checked_limits(limits: Json) -> Limits:
    """The limits of a user, checked. Raises ValueError with RabbitMQ's text."""
    for fault in faults(limits, OF_USER, "user-limits"):
        raise ValueError(fault)
    return cast(Limits, limits)


# Checked for an unknown name, so that the time taken does not reveal which names exist.
_NOBODY: Final = User("", hash_password(""))


class Users:
    """All users by name. Starts with one administrator, unless its name is empty."""

    def __init__(
        self, default_user: str = "guest", default_password: str = "guest", *, algorithm: str = SHA256
    ) -> None:
        self._users: dict[str, User] = {}
        #: Algorithm for new passwords.
        self.algorithm = algorithm
        if default_user:
            self.add(default_user, default_password, tags=("administrator",))

    def authenticate(self, name: str, password: str) -> User | None:
        """The user, if the password is correct. parity: an empty password never is."""
        user = self._users.get(name, _NOBODY)
        if user.accepts(password) and password and user is not _NOBODY:
            return user
        return None

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def add(self, name: str, password: str, *, tags: Iterable[str] = (), limits: Limits = NO_LIMITS) -> User:
        """Create a user, or give an existing one a new password, tags and limits."""
        hashed = hash_password(password, self.algorithm) if password else ""
        return self.add_hashed(name, hashed, algorithm=self.algorithm, tags=tags, limits=limits)

    def add_hashed(
        self,
        name: str,
        password_hash: str,
        *,
        algorithm: str = SHA256,
        tags: Iterable[str] = (),
        limits: Limits = NO_LIMITS,
    ) -> User:
        """`add` with a password hash, as in definitions. Raises ValueError for an invalid hash.

        parity: a hash of the wrong length is accepted, and no password matches it.
        """
        if algorithm not in _DIGESTS:
            raise ValueError(f"unsupported password hashing algorithm {algorithm!r}")
        if password_hash:
            try:
                octets = base64.b64decode(password_hash, validate=True)
            except (binascii.Error, ValueError):
                raise ValueError("not_base64") from None
            if len(octets) != _SALT_OCTETS + _DIGESTS[algorithm]().digest_size:
                log.warning(
                    "no password matches the hash of user '%s': it has %d bytes, which is not %s",
                    name,
                    len(octets),
                    algorithm,
                )
        user = User(name, password_hash, algorithm, tuple(tags), dict(limits))
        self._users[name] = user
        return user

    def set_tags(self, name: str, tags: Iterable[str]) -> User:
        self._users[name] = user = replace(self._users[name], tags=tuple(tags))
        return user

    def set_limits(self, name: str, limits: Limits) -> User:
        """Replace all limits of a user."""
        self._users[name] = user = replace(self._users[name], limits=dict(limits))
        return user

    def delete(self, name: str) -> bool:
        """Delete a user and return whether it existed. The caller removes permissions and closes connections."""
        return self._users.pop(name, None) is not None

    def __contains__(self, name: object) -> bool:
        return name in self._users

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

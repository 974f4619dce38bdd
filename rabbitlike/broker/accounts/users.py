"""Who may log in: names, salted password hashes, tags and limits.

parity: hashes are RabbitMQ's (base64 of a 4-octet salt and the digest of salt + password), so definitions move both
ways. One fast digest is meant: clients that reconnect in storms must not be able to stall the loop.
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

# MD5 is what RabbitMQ hashed with before 3.6: such hashes are taken over, none is made.
_DIGESTS: Final = {SHA256: sha256, SHA512: sha512, MD5: md5}
#: What new passwords may be hashed with, by the word an operator says.
ALGORITHMS: Final = {"sha256": SHA256, "sha512": SHA512}
_SALT_OCTETS: Final = 4


@dataclass(frozen=True, slots=True)
class User:
    """One user. An empty `password_hash` lets nobody in by password (certificates still work).

    Never changed: whoever is logged in keeps the tags it came with. parity: limits and permissions are looked up by
    name, and so are always the present ones.
    """

    name: str
    password_hash: str = field(repr=False)
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    limits: Limits = field(default_factory=dict, hash=False)

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


def checked_limits(limits: Json) -> Limits:
    """Limits of a user, if they are such. Raises ValueError with RabbitMQ's text."""
    for fault in faults(limits, OF_USER, "user-limits"):
        raise ValueError(fault)
    return cast(Limits, limits)


# Checked when the name is unknown, so that the time taken does not tell which names exist.
_NOBODY: Final = User("", hash_password(""))


class Users:
    """All users by name. Starts with one administrator, unless its name is empty."""

    def __init__(
        self, default_user: str = "guest", default_password: str = "guest", *, algorithm: str = SHA256
    ) -> None:
        self._users: dict[str, User] = {}
        #: What new passwords are hashed with.
        self.algorithm = algorithm
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
        """The same from a hash, as definitions carry it. Raises ValueError for one that is none.

        parity: a hash of the wrong length is taken, and no password matches it.
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
        """All limits of a user anew."""
        self._users[name] = user = replace(self._users[name], limits=dict(limits))
        return user

    def delete(self, name: str) -> bool:
        """Whether there was such a user. Permissions and connections are the caller's to end."""
        return self._users.pop(name, None) is not None

    def __contains__(self, name: object) -> bool:
        return name in self._users

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

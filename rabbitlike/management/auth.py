"""Who calls, and what the caller's tags let it do.

parity: HTTP Basic; 401 both for the unknown and for those who may not. Any of the four tags lets a user in; what it
sees of a vhost needs a permission there, as over AMQP.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Request

from rabbitlike.management.context import Context, Here
from rabbitlike.management.errors import ApiError, not_authorised, not_found

if TYPE_CHECKING:
    from rabbitlike.broker.users import User
    from rabbitlike.broker.vhost import Vhost

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"

#: Which tags open what: each includes those before it, and monitoring and policymaking are beside each other.
OPENED_BY: Final = {
    MANAGEMENT: frozenset((MANAGEMENT, MONITORING, POLICYMAKER, ADMINISTRATOR)),
    MONITORING: frozenset((MONITORING, ADMINISTRATOR)),
    POLICYMAKER: frozenset((POLICYMAKER, ADMINISTRATOR)),
    ADMINISTRATOR: frozenset((ADMINISTRATOR,)),
}
_REFUSALS: Final = {
    MANAGEMENT: "Not management user",
    MONITORING: "Not monitor user",
    POLICYMAKER: "Not policymaker user",
    ADMINISTRATOR: "Not administrator user",
}
_ASK: Final = {"WWW-Authenticate": 'Basic realm="rabbitlike management"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, as one request shows it."""

    user: User
    context: Context

    def has(self, tag: str) -> bool:
        return not OPENED_BY[tag].isdisjoint(self.user.tags)

    def may_see(self, vhost: str) -> bool:
        """parity: an administrator or monitor sees all vhosts in lists, others those they have a permission in."""
        return self.has(MONITORING) or self.context.broker.permissions.get(self.user.name, vhost) is not None

    def vhost(self, name: str) -> Vhost:
        """The vhost, for working in it: 404 when there is none, 401 without a permission there."""
        broker = self.context.broker
        vhost = broker.vhosts.get(name)
        if vhost is None:
            raise not_found()
        if broker.permissions.get(self.user.name, name) is None:
            raise not_authorised("User not authorised to access virtual host")
        return vhost


def _credentials(request: Request) -> tuple[str, str] | None:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None


def _refused(reason: str) -> ApiError:
    return ApiError(401, "not_authorised", reason, _ASK)


async def authenticate(request: Request, here: Here) -> Caller:
    """Whoever has a right password and may log in from there."""
    given = _credentials(request)
    user = None if given is None else here.broker.users.authenticate(*given)
    if user is None:
        raise _refused("Login failed")
    host = request.client.host if request.client is not None else ""
    if user.name in here.settings.loopback_users and not is_loopback(host):
        raise _refused("User can only log in via localhost")
    return Caller(user, here)


def is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool(address.is_loopback or (mapped is not None and mapped.is_loopback))


def _with_tag(tag: str) -> Callable[[Caller], Coroutine[Any, Any, Caller]]:
    async def check(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
        if not caller.has(tag):
            raise not_authorised(_REFUSALS[tag])
        return caller

    return check


#: For a route's parameters: who may call it.
Member = Annotated[Caller, Depends(_with_tag(MANAGEMENT))]
Monitor = Annotated[Caller, Depends(_with_tag(MONITORING))]
Policymaker = Annotated[Caller, Depends(_with_tag(POLICYMAKER))]
Administrator = Annotated[Caller, Depends(_with_tag(ADMINISTRATOR))]

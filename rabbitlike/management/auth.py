"""Authentication, and what a caller's tags permit.

parity: HTTP Basic; 401 both for failed logins and for missing rights. Any of the four tags lets a user in; access to
the contents of a vhost needs a permission there, as over AMQP.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.security.http import HTTPBase
from starlette.datastructures import Headers, QueryParams

from rabbitlike.broker.accounts.login_attempts import HTTP
from rabbitlike.management.context import Context, Here
from rabbitlike.management.http.errors import ApiError, not_authorised, not_found
from rabbitlike.management.http.middleware import DOCUMENTS

if TYPE_CHECKING:
    from starlette.types import Scope

    from rabbitlike.broker.accounts.access import Permit, PermitTopic
    from rabbitlike.broker.accounts.users import User
    from rabbitlike.broker.vhost import Vhost

log = logging.getLogger(__name__)

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"

#: Tags that grant each right. Neither monitoring nor policymaker includes the other.
OPENED_BY: Final = {
    MANAGEMENT: frozenset((MANAGEMENT, MONITORING, POLICYMAKER, ADMINISTRATOR)),
    MONITORING: frozenset((MONITORING, ADMINISTRATOR)),
    POLICYMAKER: frozenset((POLICYMAKER, ADMINISTRATOR)),
    ADMINISTRATOR: frozenset((ADMINISTRATOR,)),
}
_REFUSALS: Final = {
    MANAGEMENT: "Not management user",
    MONITORING: "Not monitor user",
    POLICYMAKER: "User not authorised to access object",
    ADMINISTRATOR: "Not administrator user",
}
#: Maximum characters of an unauthenticated client's user name in the log.
MAX_SAID: Final = 64
_ASK: Final = {"WWW-Authenticate": 'Basic realm="rabbitlike management"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated user of one request."""

    user: User
    context: Context

    def has(self, tag: str) -> bool:
        return not OPENED_BY[tag].isdisjoint(self.user.tags)

    def may_see(self, vhost: str) -> bool:
        """parity: lists show administrators and monitors all vhosts, others those in which they have a permission."""
        return self.has(MONITORING) or self.context.broker.permissions.get(self.user.name, vhost) is not None

    def may_list(self, vhost: str) -> bool:
        """parity: whether lists of queues, exchanges and bindings show those of this vhost."""
        return self.has(ADMINISTRATOR) or self.context.broker.permissions.get(self.user.name, vhost) is not None

    def vhost(self, name: str, missing: str = "") -> Vhost:
        """The vhost. Raises 404 (with reason `missing`) if it does not exist, 401 without a permission there.

        parity: an administrator needs no permission to read; changes need permissions, as over AMQP.
        """
        vhost = self.context.broker.vhosts.get(name)
        if vhost is None:
            raise not_found(missing)
        if not self.may_list(name):
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def permit_in(self, vhost: Vhost) -> Permit:
        """A function that raises 403 unless the user has an access to an exchange or queue of this vhost."""
        return partial(self.context.broker.permissions.check, self.user.name, vhost.name)

    def permit_topic_in(self, vhost: Vhost) -> PermitTopic:
        return partial(self.context.broker.permissions.check_topic, self.user.name, vhost.name)


def _credentials(scope: Scope) -> tuple[str, str] | None:
    """Name and password from the header; paths for downloads and uploads also accept the query."""
    encoded = _in_query(scope)
    if encoded is None:
        scheme, _, encoded = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (name, password) if colon else None


def _in_query(scope: Scope) -> str | None:
    """The base64 login in `?auth=` of requests for definitions; None if absent.

    parity: links and forms of a web page cannot set a header. `auth` precedes the header; other paths ignore it.
    """
    path: str = scope["path"]
    if not any(path == document or path.startswith(f"{document}/") for document in DOCUMENTS):
        return None
    given = QueryParams(scope["query_string"]).get("auth")
    return None if given is None else given.replace(" ", "+")  # an unescaped +


def _refused(headers: dict[str, str] | None = None) -> ApiError:
    return ApiError(401, "not_authorized", "Login failed", headers)  # parity: spelled with z here, with s elsewhere


def login(scope: Scope, context: Context) -> Caller:
    """Authenticate the request by password, once per request. Raises ApiError if the login fails or is not allowed."""
    known = scope.setdefault("state", {})
    if "caller" in known:
        found: Caller = known["caller"]
        return found
    given = _credentials(scope)
    if given is None:
        # parity: only here. After a wrong password the header would make browsers open a dialog over the web page.
        raise _refused(_ASK)
    caller = known["caller"] = login_as(scope, context, *given)
    return caller


def login_as(scope: Scope, context: Context, name: str, password: str) -> Caller:
    """Authenticate by name and password that did not come in the header or query."""
    # The peer address of the socket; headers that claim another address are ignored.
    host = scope["client"][0] if scope.get("client") else ""
    failures = context.broker.login_failures
    if wait_ms := failures.wait_ms(host, name):
        retry = str(-(-wait_ms // 1000))
        if failures.may_log(host, name, "limited"):
            log.warning(
                "HTTP access denied: user %r from %s: too many failed logins, no password is checked for %s s",
                name[:MAX_SAID],
                host or "an unknown address",
                retry,
            )
        raise ApiError(
            429, "too_many_requests", f"Too many failed logins; try again in {retry} s", {"Retry-After": retry}
        )
    user = context.broker.users.authenticate(name, password)
    if user is None:
        failures.add(host, name)
        context.broker.login_attempts.count(HTTP, host, name, succeeded=False)
        if failures.may_log(host, name):
            where = host or "an unknown address"
            log.warning("HTTP access denied: user %r from %s: login failed", name[:MAX_SAID], where)
        raise _refused()
    if user.name in context.settings.loopback_users and not is_loopback(host):
        failures.add(host, name)
        context.broker.login_attempts.count(HTTP, host, name, succeeded=False)
        raise not_authorised("User can only log in via localhost")
    failures.forgive(host, name)
    context.broker.login_attempts.count(HTTP, host, name, succeeded=True)
    return Caller(user, context)


#: Only declares HTTP Basic in the OpenAPI description; `login` checks the credentials.
_BASIC: Final = HTTPBase(scheme="basic", scheme_name="basic", auto_error=False)


async def authenticate(request: Request, here: Here, _: Annotated[object, Depends(_BASIC)]) -> Caller:
    """The caller, if password and source address are accepted."""
    return login(request.scope, here)


def is_loopback(host: str) -> bool:
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


#: For a route's parameters: the right that the caller needs.
Member = Annotated[Caller, Depends(_with_tag(MANAGEMENT))]
Monitor = Annotated[Caller, Depends(_with_tag(MONITORING))]
Policymaker = Annotated[Caller, Depends(_with_tag(POLICYMAKER))]
Administrator = Annotated[Caller, Depends(_with_tag(ADMINISTRATOR))]

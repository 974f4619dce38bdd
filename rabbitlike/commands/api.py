"""Client of the broker's HTTP API: encodes names in paths and turns refusals into sentences.

It uses RabbitMQ's paths and error bodies, so it works against RabbitMQ too. It does not depend on a terminal.
"""

import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from rabbitlike import __version__
from rabbitlike.commands.faults import Fault, Refused, Unreachable

if TYPE_CHECKING:
    import ssl

    import httpx

DEFAULT_URL: Final = "http://localhost:15672"
DEFAULT_VHOST: Final = "/"
TIMEOUT_S: Final = 30.0
#: The default exchange, whose name is empty, as a path segment.
DEFAULT_EXCHANGE: Final = "amq.default"

#: One object as the API returns it: decoded JSON.
View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Address:
    """URL and credentials of a broker."""

    url: str = DEFAULT_URL
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    cafile: str | None = None

    @property
    def verify(self) -> "ssl.SSLContext | bool":
        """httpx's `verify` argument. Loading all authorities takes time, so a plain connection skips it."""
        if self.cafile is None:
            return self.url.startswith("https:")
        import ssl

        try:
            return ssl.create_default_context(cafile=self.cafile)
        except OSError as error:
            raise Fault(f"cannot use the authorities in {self.cafile}: {error.strerror or error}") from None

    @property
    def headers(self) -> dict[str, str]:
        return {"user-agent": f"rabbitlike/{__version__}"}


def split_url(url: str) -> tuple[str, str | None, str | None]:
    """Return the URL without credentials, the user and the password. Raise Fault if it is not the URL of a broker."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Fault(f"'{url}' is no address of a broker: write it as {DEFAULT_URL}")
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, host, parts.path.rstrip("/").removesuffix("/api"), "", ""))
    return plain, parts.username and unquote(parts.username), parts.password and unquote(parts.password)


def path_of(names: Iterable[str]) -> str:
    """Return `/api/queues/%2F/orders` for ("queues", "/", "orders")."""
    return "".join(f"/{_segment(name)}" for name in ("api", *names))


def _segment(name: str) -> str:
    # A name that consists of dots would mean a parent folder in the path.
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _load_httpx() -> None:
    """Import httpx without its own command line, which takes two thirds of the import time.

    httpx omits its command line if Click is not installed.
    """
    if "httpx" not in sys.modules and "click" not in sys.modules:
        sys.modules["click"] = None  # type: ignore[assignment]  # makes `import click` fail
        try:
            import httpx  # noqa: F401
        finally:
            del sys.modules["click"]


class Api:
    """Sends requests to one broker over one kept-alive connection."""

    def __init__(self, address: Address) -> None:
        _load_httpx()
        import httpx

        self.address = address
        self._http = httpx.Client(
            auth=(address.user, address.password),
            timeout=TIMEOUT_S,
            verify=address.verify,
            headers=address.headers,
            trust_env=False,  # proxies for the web do not apply to a broker
        )

    def close(self) -> None:
        self._http.close()

    def get(self, *names: str, **query: str | int) -> Any:
        return self._json(self.request("GET", names, query=query))

    def get_list(self, *names: str, **query: str | int) -> list[View]:
        found: list[View] = self.get(*names, **query)
        return found

    def put(self, *names: str, body: View | None = None) -> bool:
        """Return True if the request created the object, False if it existed."""
        return self.request("PUT", names, body={} if body is None else body).status_code == 201

    def post(self, *names: str, body: View) -> Any:
        answer = self.request("POST", names, body=body)
        return self._json(answer) if answer.content else None

    def delete(
        self, *names: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.request("DELETE", names, query=query, headers=headers)

    def request(
        self,
        method: str,
        names: tuple[str, ...],
        *,
        body: View | None = None,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "httpx.Response":
        """Send a request; raise Refused or Unreachable unless it succeeds."""
        answer = self.ask(method, names, body=body, query=query, headers=headers)
        if not answer.is_success:
            raise self.refusal(answer, method, names)
        return answer

    def ask(
        self,
        method: str,
        names: tuple[str, ...],
        *,
        body: View | None = None,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "httpx.Response":
        """Send a request and return the answer, whatever its status; raise Unreachable if there is none."""
        content = None if body is None else json.dumps(body).encode()
        sent = {**(headers or {}), **({} if content is None else {"content-type": "application/json"})}
        with self.reaching():
            return self._http.request(
                method, self.address.url + path_of(names), content=content, params=query or None, headers=sent
            )

    @contextmanager
    def stream(
        self,
        method: str,
        names: tuple[str, ...],
        *,
        content: Iterable[bytes] | None = None,
        length: int = 0,
        query: Mapping[str, str] | None = None,
        endless: bool = False,
    ) -> Iterator["httpx.Response"]:
        """Send a request whose body or answer is streamed; an endless answer may pause for any time."""
        import httpx

        timeout = httpx.Timeout(TIMEOUT_S, read=None) if endless else TIMEOUT_S
        headers = {} if content is None else {"content-type": "application/json", "content-length": str(length)}
        url = self.address.url + path_of(names)
        with (
            self.reaching(),
            self._http.stream(method, url, content=content, params=query, headers=headers, timeout=timeout) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise self.refusal(answer, method, names)
            yield answer

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Turn network errors into Unreachable."""
        import httpx

        url = self.address.url
        try:
            yield
        except httpx.TimeoutException:
            raise Unreachable(f"the broker at {url} did not answer within {TIMEOUT_S:.0f} s") from None
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Unreachable(
                    f"the certificate of {url} is not trusted: give its authority with --cafile"
                ) from None
            hint = "start one with `rabbitlike serve`, or give --url"
            raise Unreachable(f"no broker at {url}: {hint}") from None
        except httpx.HTTPError as error:
            raise Unreachable(f"the connection to {url} broke: {error or type(error).__name__}") from None

    def _json(self, answer: "httpx.Response") -> Any:
        try:
            return answer.json()
        except ValueError:
            raise Unreachable(
                f"{self.address.url} does not answer like the management port of a broker: give another --url"
            ) from None

    def refusal(self, answer: "httpx.Response", method: str, names: tuple[str, ...]) -> Fault:
        """Return the fault for an answer other than success."""
        status = answer.status_code
        if status == 405:
            return Refused(f"this broker cannot do that: it knows no {method} {path_of(names)}", status)
        try:
            said = answer.json()
        except ValueError:
            said = None
        if not isinstance(said, dict) or "error" not in said:
            return Unreachable(
                f"{self.address.url} answers {method} {path_of(names)} with {status}, not like a broker would: "
                "give another --url"
            )
        reason = _text(said.get("reason", said["error"]))
        if status == 401:
            return Refused(self._unauthorised(reason), status)
        if status == 404 or reason.endswith("_not_found"):
            return Refused(self._missing(names, reason), status)
        if status == 429:
            return Refused(f"{self.address.url} limits failed logins: {reason}", status)
        return Refused(reason, status)

    def _unauthorised(self, reason: str) -> str:
        user = self.address.user
        if reason == "Login failed":
            return f"wrong user or password: '{user}' is not let in; give --user and --password"
        return f"user '{user}' may not do this: {reason}"

    # Missing objects

    def _missing(self, names: tuple[str, ...], reason: str) -> str:
        """Say which name in the path is unknown, and suggest similar names."""
        for kind, vhost, name in _named(names):
            known = self._known(kind, vhost)
            if known is not None and name not in known and name != DEFAULT_EXCHANGE:
                place = f" in vhost '{vhost}'" if vhost is not None else ""
                return f"no {kind} '{name}'{place}{_near(name, known)}"
        return f"the broker has no {path_of(names)}: {reason}"

    def _known(self, kind: str, vhost: str | None) -> list[str] | None:
        """Return the names of all objects of this kind, or None if the broker does not return them."""
        resource, key = _LISTS[kind]
        answer = self.ask("GET", (resource,) if vhost is None else (resource, vhost), query={"columns": key})
        if not answer.is_success:
            return None
        return [str(view.get(key, "")) for view in self._json(answer)]


#: Kinds of objects: the list that contains their names, and the field with the name.
_LISTS: Final = {
    "vhost": ("vhosts", "name"),
    "queue": ("queues", "name"),
    "exchange": ("exchanges", "name"),
    "user": ("users", "name"),
    "connection": ("connections", "name"),
    "channel": ("channels", "name"),
    "policy": ("policies", "name"),
    "operator policy": ("operator-policies", "name"),
}
_IN_VHOST: Final = {
    "queues": "queue",
    "exchanges": "exchange",
    "policies": "policy",
    "operator-policies": "operator policy",
}
_GLOBAL: Final = {
    "vhosts": "vhost",
    "users": "user",
    "connections": "connection",
    "channels": "channel",
    "user-limits": "user",
    "vhost-limits": "vhost",
    "definitions": "vhost",
}


_WITHOUT_VHOST: Final = {"global-parameters", "feature-flags", "health", "nodes"}


def _named(names: tuple[str, ...]) -> Iterator[tuple[str, str | None, str]]:
    """Yield the objects that a path names, from left to right: kind, the vhost that contains it, name."""
    resource, rest = names[0], names[1:]
    if not rest or resource in _WITHOUT_VHOST:
        return
    if resource in _GLOBAL:
        yield _GLOBAL[resource], None, rest[0]
    elif resource in ("permissions", "topic-permissions"):
        yield "vhost", None, rest[0]
        yield from (("user", None, name) for name in rest[1:2])
    elif resource == "bindings":
        yield "vhost", None, rest[0]
        for letter, name in zip(rest[1::2], rest[2::2], strict=False):
            if letter in ("e", "q"):
                yield {"e": "exchange", "q": "queue"}[letter], rest[0], name
    elif resource == "parameters":
        yield from (("vhost", None, name) for name in rest[1:2])
    else:
        yield "vhost", None, rest[0]
        if resource in _IN_VHOST:
            yield from ((_IN_VHOST[resource], rest[0], name) for name in rest[1:2])


def _near(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or [
        each for each in known if each.lower() == name.lower()
    ]
    return f"; did you mean {' or '.join(repr(each) for each in close)}?" if close else ""


def _text(reason: object) -> str:
    return " ".join((reason if isinstance(reason, str) else json.dumps(reason)).split())

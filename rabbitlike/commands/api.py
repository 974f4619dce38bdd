"""The broker's HTTP API, as commands ask it: names in paths are encoded here, refusals become sentences here.

Knows RabbitMQ's paths and error bodies, and works against a RabbitMQ as well; knows nothing of terminals.
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
#: How the default exchange, whose name is empty, is written in a path.
DEFAULT_EXCHANGE: Final = "amq.default"

#: One object as the API tells of it: JSON as it came.
View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Address:
    """Where the broker is and who asks it."""

    url: str = DEFAULT_URL
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    cafile: str | None = None

    @property
    def verify(self) -> "ssl.SSLContext | bool":
        """What httpx is to trust; reading all authorities takes time, which a plain connection has no need to wait."""
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
    """The URL without what it says of the user; that user and password. Fault when it is no URL of a broker."""
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
    """`/api/queues/%2F/orders` of ("queues", "/", "orders")."""
    return "".join(f"/{_segment(name)}" for name in ("api", *names))


def _segment(name: str) -> str:
    # A name of dots alone would be taken for a step up the path.
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _load_httpx() -> None:
    """Import httpx without its own command line, which would bring a terminal's worth of modules along: two thirds of
    the time that it takes. httpx leaves it out where Click is not installed."""
    if "httpx" not in sys.modules and "click" not in sys.modules:
        sys.modules["click"] = None  # type: ignore[assignment]  # it cannot be imported
        try:
            import httpx  # noqa: F401
        finally:
            del sys.modules["click"]


class Api:
    """Asks one broker, over one connection that is kept."""

    def __init__(self, address: Address) -> None:
        _load_httpx()
        import httpx

        self.address = address
        self._http = httpx.Client(
            auth=(address.user, address.password),
            timeout=TIMEOUT_S,
            verify=address.verify,
            headers=address.headers,
            trust_env=False,  # a proxy for the web is none for a broker
        )

    def close(self) -> None:
        self._http.close()

    def get(self, *names: str, **query: str | int) -> Any:
        return self._json(self.request("GET", names, query=query))

    def get_list(self, *names: str, **query: str | int) -> list[View]:
        found: list[View] = self.get(*names, **query)
        return found

    def put(self, *names: str, body: View | None = None) -> bool:
        """True when it was made by this, False when it was there."""
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
        """Any request; Refused or Unreachable unless it succeeds."""
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
        """Any request and its answer, whatever it is; Unreachable when there is none."""
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
        """A request whose body, or whose answer, comes bit by bit; an endless one may be silent for as long as it
        likes."""
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
        """What goes wrong between here and the broker becomes Unreachable."""
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
        """The sentence for an answer other than success."""
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

    # What is not there

    def _missing(self, names: tuple[str, ...], reason: str) -> str:
        """Which of the names in a path is the unknown one, and what was perhaps meant."""
        for kind, vhost, name in _named(names):
            known = self._known(kind, vhost)
            if known is not None and name not in known and name != DEFAULT_EXCHANGE:
                place = f" in vhost '{vhost}'" if vhost is not None else ""
                return f"no {kind} '{name}'{place}{_near(name, known)}"
        return f"the broker has no {path_of(names)}: {reason}"

    def _known(self, kind: str, vhost: str | None) -> list[str] | None:
        """The names of all things of this kind; None when they cannot be had."""
        resource, key = _LISTS[kind]
        answer = self.ask("GET", (resource,) if vhost is None else (resource, vhost), query={"columns": key})
        if not answer.is_success:
            return None
        return [str(view.get(key, "")) for view in self._json(answer)]


#: Kinds of things: the list that knows their names, and the field the name stands in.
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
    """What a path names, from left to right: kind, the vhost it is looked for in, name."""
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

"""One request, to be asked of both brokers. `{name}` in its path stands for a name the broker gave (Topology.names)."""

from dataclasses import dataclass

from interop.management.doors import GUEST

Auth = tuple[str, str]


@dataclass(frozen=True)
class Request:
    name: str
    method: str
    path: str
    body: object = None
    auth: Auth | None = GUEST
    content: bytes | None = None
    headers: dict[str, str] | None = None


def get(name: str, path: str, auth: Auth | None = GUEST) -> Request:
    return Request(name, "GET", path, auth=auth)


def put(name: str, path: str, body: object = None, auth: Auth = GUEST) -> Request:
    return Request(name, "PUT", path, body, auth)


def post(name: str, path: str, body: object = None, auth: Auth = GUEST) -> Request:
    return Request(name, "POST", path, body, auth)


def delete(name: str, path: str, auth: Auth = GUEST) -> Request:
    return Request(name, "DELETE", path, auth=auth)

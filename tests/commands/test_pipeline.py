"""Bulk publishing against servers that behave in other ways than ours."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rabbitlike.commands.api import Address
from rabbitlike.commands.faults import Refused, Unreachable
from rabbitlike.commands.pipeline import post_all


def read_request(stream: socket.SocketIO) -> bytes | None:
    """A request's body; None at the end."""
    length = 0
    while line := stream.readline():
        name, _, value = line.strip().partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if not name:
            return stream.read(length)
    return None


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[Address]:
    """A server that gives each connection, in turn, to a function."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    serve(sock)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield Address(f"http://127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def post(address: Address, count: int) -> list[tuple[int, bytes]]:
    answers: list[tuple[int, bytes]] = []
    bodies = (b"%d" % number for number in range(count))
    post_all(address, ("publish",), bodies, lambda status, body: answers.append((status, body)))
    return answers


def test_a_server_that_ends_connections_after_some_requests() -> None:
    """parity: RabbitMQ's does after a thousand. What it has not looked at is sent again, and nothing twice."""
    got: list[bytes] = []

    def serve(sock: socket.socket) -> None:
        with sock.makefile("rb", buffering=0) as stream:
            for at in range(7):
                body = read_request(stream)  # type: ignore[arg-type]
                if body is None:
                    return
                got.append(body)
                ending = b"Connection: close\r\n" if at == 6 else b""
                sock.sendall(b"HTTP/1.1 200 OK\r\n" + ending + b"Content-Length: 2\r\n\r\nok")
            sock.shutdown(socket.SHUT_WR)
            while stream.read(65536):
                pass

    with serving(serve) as address:
        answers = post(address, 100)
    assert answers == [(200, b"ok")] * 100
    assert got == [b"%d" % number for number in range(100)]


def test_a_server_that_hangs_up() -> None:
    def serve(sock: socket.socket) -> None:
        with sock.makefile("rb", buffering=0) as stream:
            read_request(stream)  # type: ignore[arg-type]

    with serving(serve) as address, pytest.raises(Unreachable, match="the broker hung up"):
        post(address, 10)


def test_a_server_that_speaks_something_else() -> None:
    def serve(sock: socket.socket) -> None:
        sock.sendall(b"220 mail.example ESMTP\r\n")
        while sock.recv(65536):
            pass

    with serving(serve) as address, pytest.raises(Unreachable, match="not HTTP"):
        post(address, 10)


def test_whoever_hears_the_answers_may_end_it() -> None:
    def serve(sock: socket.socket) -> None:
        with sock.makefile("rb", buffering=0) as stream:
            while read_request(stream) is not None:  # type: ignore[arg-type]
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    def refuse(status: int, body: bytes) -> None:
        raise Refused(f"answered {status}")

    with serving(serve) as address, pytest.raises(Refused, match="answered 400"):
        post_all(address, ("publish",), (b"x" for _ in range(1000)), refuse)

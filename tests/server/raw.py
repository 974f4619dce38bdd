"""A client of bare sockets, for what stock clients are too polite to do. Frames are pamqp's, both ways."""

import socket
from types import TracebackType
from typing import TypeVar

from pamqp import base, commands, frame, header, heartbeat

F = TypeVar("F", bound=base.Frame | heartbeat.Heartbeat)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
TIMEOUT_S = 10.0


class RawClient:
    """Sends and reads frames one by one; nothing happens by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(TIMEOUT_S)
        self._buffer = b""

    @classmethod
    def connect(cls, port: int, host: str = "127.0.0.1") -> "RawClient":
        return cls(socket.create_connection((host, port), TIMEOUT_S))

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sock.close()

    def send(self, method: base.Frame, channel: int = 0) -> None:
        self.sock.sendall(frame.marshal(method, channel))

    def read(self) -> base.Frame | heartbeat.Heartbeat | header.ContentHeader | bytes | None:
        """The next frame; None at the end of the stream."""
        while True:
            if len(self._buffer) >= 7:
                size = int.from_bytes(self._buffer[3:7], "big") + 8
                if len(self._buffer) >= size:
                    whole, self._buffer = self._buffer[:size], self._buffer[size:]
                    if whole[0] == 3:
                        return whole[7:-1]
                    found = frame.unmarshal(whole)[2]
                    assert isinstance(found, base.Frame | heartbeat.Heartbeat | header.ContentHeader)
                    return found
            data = self.sock.recv(65536)
            if not data:
                return None
            self._buffer += data

    def expect(self, kind: type[F]) -> F:
        found = self.read()
        assert isinstance(found, kind), found
        return found

    def expect_end(self) -> None:
        """The broker closes the socket, or drops it, and sends nothing before."""
        try:
            assert self.read() is None
        except ConnectionResetError:
            pass

    def log_in(self, *, mechanism: str = "PLAIN", response: str = "\0guest\0guest", heartbeat: int = 0) -> None:
        self.sock.sendall(PROTOCOL_HEADER)
        self.expect(commands.Connection.Start)
        self.send(commands.Connection.StartOk({}, mechanism, response, "en_US"))
        tune = self.expect(commands.Connection.Tune)
        self.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, heartbeat))
        self.send(commands.Connection.Open("/"))
        self.expect(commands.Connection.OpenOk)

    def open_channel(self, number: int = 1) -> None:
        self.send(commands.Channel.Open(), number)
        self.expect(commands.Channel.OpenOk)

    def publish(self, body: bytes, queue: str, channel: int = 1) -> None:
        self.send(commands.Basic.Publish(exchange="", routing_key=queue), channel)
        start = header.ContentHeader(body_size=len(body), properties=commands.Basic.Properties())
        self.sock.sendall(frame.marshal(start, channel))
        for at in range(0, len(body), 131_064):
            part = body[at : at + 131_064]
            size = len(part).to_bytes(4, "big")
            self.sock.sendall(b"\x03" + channel.to_bytes(2, "big") + size + part + b"\xce")

"""One connection to one broker: a blocking socket that keeps every frame it is sent.

It answers a close as any client would, and knows which channels are open. A barrier is channel.flow with active=true,
which both brokers echo and nobody minds: when its echo is there, so is everything that was said before it.
"""

import select
import socket
import time
from collections.abc import Mapping
from typing import Final

from pamqp import base, commands

from interop.parity.said import Said, tell
from tests.support import frames
from tests.support.frames import Received, loose

TIMEOUT_S: Final = 20.0
QUIET_S: Final = 0.03
READ_SIZE: Final = 1 << 20
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)


class Line:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._partial = bytearray()
        self._frames: list[Received] = []  # not told yet
        self._echoes: dict[int, int] = {}  # barriers that are under way, by channel
        self._settled: dict[int, set[int]] = {}
        self.open: set[int] = set()
        self.is_gone = False
        self.is_told_gone = False
        self.is_ended = False  # one side has said connection.close
        self.answers_closes = True
        self.keeps_order = False  # confirms and deliveries are compared in one line with all else of their channel
        self.delivered: dict[int, list[int]] = {}  # tags by channel
        self.given: list[str] = []  # names the broker made up, in their order

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            self.is_gone = True

    def hang_up(self) -> None:
        self._socket.close()
        self.open.clear()
        self.is_gone = self.is_told_gone = True

    def shake_hands(self, client_properties: Mapping[str, object] | None = None, vhost: str = "/") -> None:
        """Open the connection with what the broker offers, and no heartbeats."""
        self.send(frames.PROTOCOL_HEADER)
        self.call(b"", commands.Connection.Start)
        given = {"product": "parity", "capabilities": dict.fromkeys(CAPABILITIES, True), **(client_properties or {})}
        tune = self.call(frames.encode_method(start_ok(given), 0), commands.Connection.Tune)
        assert isinstance(tune, commands.Connection.Tune)
        tune_ok = commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0)
        opening = commands.Connection.Open(virtual_host=vhost)
        data = frames.encode_method(tune_ok, 0) + frames.encode_method(opening, 0)
        self.call(data, commands.Connection.OpenOk)

    def call(self, data: bytes, reply: type[base.Frame], channel: int = 0) -> base.Frame:
        """Send, and take the answer out of what comes."""
        self.send(data)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for item in self._frames:
                if item.channel == channel and isinstance(item.frame, reply):
                    self._frames.remove(item)
                    return item.frame
            assert not self.is_gone, f"the connection is gone; {reply.name} was expected after {self._frames}"
            assert time.monotonic() < deadline, f"no {reply.name}, but {self._frames}"
            self.poll(0.1)

    # Reading.

    def poll(self, timeout_s: float) -> bool:
        """Take what has come, or comes in this time; whether anything did."""
        if self.is_gone or not select.select([self._socket], [], [], timeout_s)[0]:
            return False
        try:
            data = self._socket.recv(READ_SIZE)
        except OSError:
            data = b""
        if not data:
            self.is_gone = self.is_ended = True
            self.open.clear()
            return True
        self._partial += data
        for item in frames.cut(self._partial):
            self._take(item)
        return True

    def _take(self, item: Received) -> None:
        method, channel = item.frame, item.channel
        if isinstance(method, commands.Channel.FlowOk) and self._echoes.get(channel):
            self._echoes[channel] -= 1
            return
        self._frames.append(item)
        if isinstance(method, commands.Channel.OpenOk):
            self.open.add(channel)
            self.delivered[channel] = []
            self._settled.pop(channel, None)
        elif isinstance(method, commands.Basic.Deliver | commands.Basic.GetOk):
            assert method.delivery_tag is not None
            self.delivered[channel].append(method.delivery_tag)
        elif isinstance(method, commands.Channel.Close):
            self._closed(channel)
            if self.answers_closes:
                self.send(frames.encode_method(commands.Channel.CloseOk(), channel))
        elif isinstance(method, commands.Channel.CloseOk):
            self._closed(channel)
        elif isinstance(method, commands.Connection.Close | commands.Connection.CloseOk):
            self.is_ended = True
            self.open.clear()
            self._echoes.clear()
            if isinstance(method, commands.Connection.Close) and self.answers_closes:
                self.send(frames.encode_method(commands.Connection.CloseOk(), 0))

    def _closed(self, channel: int) -> None:
        self.open.discard(channel)
        self._echoes.pop(channel, None)

    def take(self) -> list[Said]:
        """All answers that have come whole since the last time."""
        said, self._frames = tell(self._frames, self._settled, self.given)
        if self.keeps_order:
            said = [Said(item.channel, "", item.text) for item in said]
        if self.is_gone and not self.is_told_gone:
            self.is_told_gone = True
            said.append(Said(0, "", "(gone)"))
        return said

    # Waiting.

    def put_barrier(self, channel: int) -> None:
        self._echoes[channel] = self._echoes.get(channel, 0) + 1
        self.send(frames.encode_method(commands.Channel.Flow(active=True), channel))

    def await_barriers(self) -> None:
        """Until no echo is missing; a close takes them with it."""
        deadline = time.monotonic() + TIMEOUT_S
        while any(self._echoes.values()) and not self.is_gone:
            assert time.monotonic() < deadline, "a barrier was not echoed"
            self.poll(0.1)

    def await_answer(self, within_s: float = 2.0) -> None:
        """Until any frame has come, or the end."""
        deadline = time.monotonic() + within_s
        while not self._frames and not self.is_gone and time.monotonic() < deadline:
            self.poll(0.05)

    def await_end(self, within_s: float) -> None:
        """Until the other side has hung up."""
        deadline = time.monotonic() + within_s
        while not self.is_gone and time.monotonic() < deadline:
            self.poll(0.02)

    def await_quiet(self, quiet_s: float = QUIET_S) -> None:
        while self.poll(quiet_s):
            pass


def start_ok(
    client_properties: Mapping[str, object], mechanism: str = "PLAIN", response: str | bytes = "\0guest\0guest"
) -> base.Frame:
    return loose(
        commands.Connection.StartOk,
        client_properties=client_properties,
        mechanism=mechanism,
        response=frames.longstr(response),
        locale="en_US",
    )

"""A substitute for a broker that does next to nothing, to measure the generator alone.

It answers every method with its -ok, takes publishes by their size without looking at them, and sends the same number
of canned deliveries, tags in order, to the consumers of the queue named by the routing key (of every queue if an
exchange is named), in turn if there are several. It drops acks. All messages of a publisher must have one size; the
canned deliveries are those of its first read. Single messages are forwarded at once unchanged: scenarios that measure a
time read it from the body.

    python -m benchmarks.sink PORT
"""

import select
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks import wire

READ_BYTES = 1024 * 1024
CANNED = 2048  # deliveries in a block
FEW = 32
OK_ARGUMENTS = {
    wire.QUEUE_DECLARE: wire.shortstr("q") + bytes(8),
    wire.QUEUE_DELETE: bytes(4),
    wire.OPEN: b"\x00",
    wire.CHANNEL_OPEN: bytes(4),
    wire.CONSUME: wire.shortstr("c"),
}
START = wire.method(0, wire.START, b"\x00\x09" + wire.table({}) + wire.longstr(b"PLAIN") + wire.longstr(b"en_US"))
TUNE = wire.method(0, wire.TUNE, struct.pack(">HIH", 2047, 131072, 60))


@dataclass(slots=True)
class Peer:
    """One connection: a publisher after its first publish, a consumer after basic.consume; or both."""

    sock: socket.socket
    data: bytearray = field(default_factory=bytearray)
    source: str = ""  # the queue it consumes from
    is_consumer: bool = False
    target: str = ""  # the queue it publishes to; every one if this is empty
    message: bytes = b""  # the first one published; all others have its size
    others: list[bytes] = field(default_factory=list)  # the rest of its first read
    out: memoryview = field(default_factory=lambda: memoryview(b""))
    owed: int = 0
    sent: int = 0
    canned: wire.TagBlock | None = None


class Sink:
    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._peers: dict[int, Peer] = {}
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._turn = 0  # round-robin position among the consumers of one queue

    def serve(self) -> None:
        while True:
            for fd, event in self._poll.poll():
                if fd == self._listener.fileno():
                    self._accept()
                elif (peer := self._peers.get(fd)) is not None:
                    if event & ~select.POLLOUT and not self._read(peer):
                        self._drop(fd)
                    elif event & select.POLLOUT:
                        self._write(peer)

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self._peers[sock.fileno()] = Peer(sock)
        self._poll.register(sock, select.POLLIN)

    def _drop(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._peers.pop(fd).sock.close()

    def _read(self, peer: Peer) -> bool:
        try:
            count = peer.sock.recv_into(self._buffer)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if peer.is_consumer and self._buffer[count - 21 : count - 14] == ACK_HEAD:
            return True  # only acks
        peer.data += self._buffer[:count]
        self._take_publishes(peer)
        for reply in self._answers(peer):
            peer.sock.sendall(reply)
        return count > 0

    def _take_publishes(self, peer: Peer) -> None:
        """Take all whole messages, in one step if the last one begins like the first one."""
        size = len(peer.message)
        count = len(peer.data) // size if size else 0
        if count and peer.data.startswith(peer.message[:11], (count - 1) * size):
            few = [bytes(peer.data[at * size : (at + 1) * size]) for at in range(count if count <= FEW else 0)]
            del peer.data[: count * size]
            self._owe(peer, count, few)

    def _answers(self, peer: Peer) -> Iterator[bytes]:
        data = peer.data
        if data.startswith(b"AMQP"):
            del data[:8]
            yield START
        while len(data) >= 7:
            _, channel, size = wire.FRAME_HEAD.unpack_from(data)
            if len(data) < size + 8:
                return
            payload = bytes(data[7 : 7 + size])
            class_id, number = struct.unpack_from(">HH", payload)
            method_id = (class_id, number)
            if method_id == wire.PUBLISH:
                if not self._learn(peer):
                    return
                self._take_publishes(peer)
                continue
            del data[: size + 8]
            if method_id == wire.START_OK:
                yield TUNE
            elif method_id not in (wire.TUNE_OK, wire.ACK):
                if method_id == wire.CONSUME:
                    peer.is_consumer, peer.source = True, _shortstr(payload, 6)
                yield wire.method(channel, (class_id, number + 1), OK_ARGUMENTS.get(method_id, b""))

    def _learn(self, peer: Peer) -> bool:
        """Learn the first message of a publisher if all three of its frames are there."""
        end = 0
        for _ in range(3):
            if len(peer.data) < end + 7:
                return False
            end += wire.FRAME_HEAD.unpack_from(peer.data, end)[2] + 8
        if len(peer.data) < end:
            return False
        peer.message = bytes(peer.data[:end])
        whole = min(CANNED, len(peer.data) // end)
        peer.others = [bytes(peer.data[at * end : (at + 1) * end]) for at in range(1, whole)]
        peer.target = "" if peer.message[13] else _shortstr(peer.message, 14)
        return True

    def _owe(self, publisher: Peer, count: int, few: Sequence[bytes]) -> None:
        for fd, peer in self._takers(publisher):
            if peer.canned is None:
                others = (_delivery(each)[0] for each in publisher.others)
                peer.canned = wire.TagBlock(*_delivery(publisher.message), CANNED, *others)
            peer.owed += count
            self._poll.modify(fd, select.POLLIN | select.POLLOUT)
            if peer.owed == len(few) and not peer.out:
                self._hand_on(peer, peer.canned, few)

    def _takers(self, publisher: Peer) -> list[tuple[int, Peer]]:
        """Return all consumers if an exchange is named, else the next one of the queue."""
        found = [
            (fd, peer) for fd, peer in self._peers.items() if peer.is_consumer and publisher.target in ("", peer.source)
        ]
        if not publisher.target or not found:
            return found
        self._turn += 1
        return [found[self._turn % len(found)]]

    def _hand_on(self, peer: Peer, canned: wire.TagBlock, few: Sequence[bytes]) -> None:
        tags = range(peer.sent + 1, peer.sent + 1 + len(few))
        deliveries = (_with_content(canned.upto(tag, tag), each) for tag, each in zip(tags, few, strict=True))
        peer.out = memoryview(b"".join(deliveries))
        peer.sent += peer.owed
        peer.owed = 0
        self._write(peer)

    def _write(self, peer: Peer) -> None:
        if not peer.out and peer.canned is not None:
            peer.out = peer.canned.upto(peer.sent + 1, peer.sent + peer.owed)
            count = len(peer.out) // peer.canned.size
            peer.owed -= count
            peer.sent += count
        try:
            peer.out = peer.out[peer.sock.send(peer.out) :]
        except BlockingIOError:
            return
        except OSError:
            peer.owed = 0
            peer.out = peer.out[:0]
        if not peer.out and not peer.owed:
            self._poll.modify(peer.sock, select.POLLIN)


ACK_HEAD = wire.ack(0, multiple=False)[:7]


def _shortstr(raw: bytes, at: int) -> str:
    return raw[at + 1 : at + 1 + raw[at]].decode()


def _delivery(message: bytes) -> tuple[bytes, int]:
    """Return the delivery of a published message, and the offset of its tag."""
    (size,) = struct.unpack_from(">I", message, 3)
    address = message[13 : 7 + size - 1]
    deliver = wire.method(1, wire.DELIVER, wire.shortstr("c") + bytes(9) + address)
    return deliver + message[size + 8 :], wire.CONSUMER_TAG_OFFSET + 2


def _with_content(delivery: memoryview, message: bytes) -> bytes:
    """Write a published message into a delivery: the content from the header on is the same."""
    (size,) = struct.unpack_from(">I", message, 3)
    content = message[size + 8 :]
    return bytes(delivery[: -len(content)]) + content


if __name__ == "__main__":
    try:
        Sink(int(sys.argv[1])).serve()
    except KeyboardInterrupt:
        pass

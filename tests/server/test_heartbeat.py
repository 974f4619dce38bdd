"""Heartbeats, by a clock that is moved by hand, and once for real."""

from pamqp.heartbeat import Heartbeat as HeartbeatFrame

from rabbitlike.server.heartbeat import Heartbeat
from rabbitlike.testing import FakeClock
from tests.server.raw import RawClient
from tests.support.broker_process import BrokerProcess


class Wire:
    """Counts what a connection would have done."""

    def __init__(self, seconds: int = 10) -> None:
        self.clock = FakeClock()
        self.sent = 0
        self.dropped_at_ms: int | None = None
        self._started_ms = self.clock.now_ms()
        self.heartbeat = Heartbeat(self.clock, self._send, self._drop)
        self.heartbeat.start(seconds)

    def _send(self) -> None:
        self.sent += 1
        self.heartbeat.written += 8

    def _drop(self) -> None:
        self.dropped_at_ms = self.clock.now_ms() - self._started_ms

    def advance(self, seconds: float, *, received: int = 0, written: int = 0) -> None:
        self.heartbeat.received += received
        self.heartbeat.written += written
        self.clock.advance(int(seconds * 1000))


def test_one_is_sent_each_half_interval_of_silence() -> None:
    """#33"""
    wire = Wire()
    wire.advance(4.9)
    assert wire.sent == 0
    wire.advance(0.1)
    assert wire.sent == 1
    wire.advance(5, received=1)
    wire.advance(5, received=1)
    assert wire.sent == 3


def test_none_is_sent_while_there_is_traffic() -> None:
    """#33"""
    wire = Wire()
    for _ in range(10):
        wire.advance(5, written=100, received=1)
    assert wire.sent == 0
    wire.advance(5, received=1)
    assert wire.sent == 1


def test_silence_is_given_up_at_the_second_check() -> None:
    """#33"""
    wire = Wire()
    wire.advance(19.9)
    assert wire.dropped_at_ms is None
    wire.advance(100)
    assert wire.dropped_at_ms == 20_000
    assert wire.clock.pending == 0


def test_any_octet_is_life() -> None:
    """#33 Two to three intervals pass between the last octet and the end."""
    wire = Wire()
    wire.advance(10.5)
    wire.advance(100, received=1)
    assert wire.dropped_at_ms == 40_000


def test_zero_is_neither_way() -> None:
    """#32"""
    wire = Wire(0)
    wire.advance(1_000_000)
    assert (wire.sent, wire.dropped_at_ms, wire.clock.pending) == (0, None, 0)


def test_silence_does_not_count_while_nobody_reads() -> None:
    """#34 Ours are sent on meanwhile."""
    wire = Wire()
    wire.advance(15)
    wire.heartbeat.pause()
    sent = wire.sent
    wire.advance(1000)
    assert wire.dropped_at_ms is None
    assert wire.sent == sent + 200
    wire.heartbeat.resume()
    wire.advance(19.9)
    assert wire.dropped_at_ms is None
    wire.advance(0.1)
    assert wire.dropped_at_ms == 1_035_000


def test_a_pause_before_the_start_holds() -> None:
    clock = FakeClock()
    dropped: list[bool] = []
    heartbeat = Heartbeat(clock, lambda: None, lambda: dropped.append(True))
    heartbeat.pause()
    heartbeat.start(1)
    clock.advance(60_000)
    assert not dropped
    heartbeat.resume()
    heartbeat.resume()
    clock.advance(2000)
    assert dropped == [True]


def test_stop_ends_both() -> None:
    wire = Wire()
    wire.heartbeat.stop()
    wire.heartbeat.pause()
    wire.heartbeat.resume()
    wire.advance(100)
    assert (wire.sent, wire.dropped_at_ms, wire.clock.pending) == (0, None, 0)


def test_on_a_socket(broker: BrokerProcess) -> None:
    """#33 A silent client hears heartbeats, and is dropped without connection.close after two to three intervals."""
    with RawClient.connect(broker.port) as client:
        client.log_in(heartbeat=1)
        heard = 0
        try:
            while (frame := client.read()) is not None:
                assert isinstance(frame, HeartbeatFrame)
                heard += 1
        except ConnectionResetError:
            pass
        assert 2 <= heard <= 6

"""Who is read in which round of the loop."""

from collections.abc import Callable

from rabbitlike.server.rounds import ROUND_NS, SHORT_NS, Rounds
from rabbitlike.testing import FakeClock, FakeTimer


class Loop(FakeClock):
    """Calls what is due at the beginning of each round; what is asked for meanwhile, in the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], None]] = []

    def call_later(self, delay_ms: int, fn: Callable[[], None]) -> FakeTimer:
        assert delay_ms == 0
        self.calls.append(fn)
        return FakeTimer(0, 0, fn)

    def begin_round(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Client:
    """A socket that always has something to read, unless it waits."""

    def __init__(self, took_ns: int) -> None:
        self.took_ns = took_ns
        self.is_waiting = False
        self.reads = 0

    def read_on(self) -> None:
        assert self.is_waiting
        self.is_waiting = False


def play(clients: list[Client], rounds: int) -> list[int]:
    """Let the loop go round; how long each round took."""
    loop = Loop()
    shared = Rounds(loop)
    took_ns = []
    for _ in range(rounds):
        loop.begin_round()
        took_ns.append(0)
        for client in clients:
            if not client.is_waiting:
                client.reads += 1
                took_ns[-1] += client.took_ns
                client.is_waiting = shared.must_wait(client, client.took_ns)
    return took_ns


def test_a_client_with_short_reads_does_not_wait_for_twenty_with_long_ones() -> None:
    short = Client(SHORT_NS - 1)
    busy = [Client(ROUND_NS) for _ in range(20)]
    took_ns = play([*busy[:10], short, *busy[10:]], 100)
    assert short.reads == 100
    assert max(took_ns[2:]) < 2 * ROUND_NS  # at first, nobody is known to be busy
    reads = [client.reads for client in busy]
    assert max(reads) - min(reads) <= 1  # in turn


def test_many_reads_that_are_not_that_long_share_a_round() -> None:
    clients = [Client(ROUND_NS // 8) for _ in range(80)]
    took_ns = play(clients, 200)
    assert max(took_ns[2:]) <= ROUND_NS
    reads = [client.reads for client in clients]
    assert sum(reads) > 200 * 7
    assert max(reads) - min(reads) <= 1


def test_few_clients_never_wait() -> None:
    clients = [Client(ROUND_NS // 3), Client(ROUND_NS // 3)]
    play(clients, 100)
    assert [client.reads for client in clients] == [100, 100]


def test_one_client_never_waits_between_rounds() -> None:
    client = Client(3 * ROUND_NS)
    play([client], 100)
    assert client.reads == 100


def test_nothing_is_left_to_do_once_nobody_waits() -> None:
    loop = Loop()
    shared = Rounds(loop)
    assert not shared.must_wait(Client(ROUND_NS), ROUND_NS)
    loop.begin_round()
    assert not loop.calls

"""Where it listens: several addresses, IPv6, unix sockets, and what it says of them."""

import socket
import stat
from pathlib import Path

import pytest

from rabbitlike.config import load
from rabbitlike.server.listener import Endpoint, ListenError, bind, endpoints, urls
from tests.server.raw import RawClient
from tests.support.broker_process import BrokerProcess, running


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def test_it_says_where_it_listens(broker: BrokerProcess) -> None:
    schemes = {url.partition(":")[0] for url in broker.urls}
    assert schemes == {"amqp", "http"}
    with RawClient.connect(broker.port) as client:
        client.log_in()


def test_endpoints_of_all_options() -> None:
    given: dict[str, str | list[str] | bool] = {
        "host": "h",
        "port": "1",
        "tls_port": "2",
        "tls_certfile": "c",
        "unix_socket": "/s",
        "listeners": ["amqp://[::1]:3,amqps://x", "unix:///t,amqp://y"],
    }
    assert [str(each) for each in endpoints(load(given))] == [
        "amqp://h:1",
        "amqps://h:2",
        "unix:///s",
        "amqp://[::1]:3",
        "amqps://x:5671",
        "unix:///t",
        "amqp://y:5672",
    ]
    assert endpoints(load({"port": "none"})) == []


def test_one_name_one_port() -> None:
    """All addresses of `localhost` get the same free port."""
    sockets = bind(Endpoint("amqp", "localhost", 0))
    assert len({bound.getsockname()[1] for bound in sockets}) == 1
    assert all(url.startswith("amqp://") for url in urls(Endpoint("amqp", "localhost", 0), sockets))
    for bound in sockets:
        bound.close()


def test_a_taken_port_leaves_nothing_bound() -> None:
    first = bind(Endpoint("amqp", "127.0.0.1", 0))
    port = first[0].getsockname()[1]
    with pytest.raises(ListenError, match="the port is taken"):
        bind(Endpoint("amqp", "127.0.0.1", port, option="port"))
    first[0].close()


def test_several_listeners() -> None:
    with running("--listeners", "amqp://127.0.0.1:0", "--listeners", "amqp://127.0.0.1:0") as broker:
        ports = {int(url.rpartition(":")[2]) for url in broker.urls if url.startswith("amqp://127.0.0.1")}
        assert len(ports) == 3
        for port in ports:
            with RawClient.connect(port) as client:
                client.log_in()


@ipv6
@pytest.mark.parametrize("host", ["::1", "::"])
def test_ipv6(host: str) -> None:
    """guest may log in: ::1 is this machine."""
    with running("--host", host) as broker:
        assert f"amqp://[{host}]:{broker.port}" in broker.urls
        with RawClient.connect(broker.port, "::1") as client:
            client.log_in()


@ipv6
def test_all_addresses_are_ipv4_too() -> None:
    """guest may log in: ::ffff:127.0.0.1 is this machine as well, and is logged as IPv4."""
    with running("--host", "::") as broker:
        with RawClient.connect(broker.port, "127.0.0.1") as client:
            client.log_in()
        broker.await_log(r"connection 127\.0\.0\.1:")
        assert "ffff" not in broker.log()


def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "amqp.sock"
    with running("--unix-socket", str(path)) as broker:
        assert f"unix://{path}" in broker.urls
        assert stat.S_ISSOCK(path.stat().st_mode)
        with RawClient(unix_client(path)) as client:
            client.log_in()
    assert not path.exists(), "it goes with the broker"


def unix_client(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(path))
    return client


def test_an_abandoned_unix_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "amqp.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    bind(Endpoint("unix", path=path))[0].close()


def test_a_unix_socket_in_use_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "amqp.sock"
    [bound] = bind(Endpoint("unix", path=path))
    with pytest.raises(ListenError, match="another process listens there"):
        bind(Endpoint("unix", path=path))
    bound.close()


def test_a_file_is_not_taken_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    path.write_text("dear")
    with pytest.raises(ListenError, match="is no socket"):
        bind(Endpoint("unix", path=path))
    assert path.read_text() == "dear"

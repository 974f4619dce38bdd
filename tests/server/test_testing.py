"""The broker that other projects' tests run inside their own process."""

import socket
import threading
from pathlib import Path

import pika
import pytest

from rabbitlike.server.listener import ListenError
from rabbitlike.testing import RunningBroker, rabbitlike_broker, run_broker

__all__ = ["rabbitlike_broker"]


def echo(broker: RunningBroker) -> bytes:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("echo", auto_delete=True)
    channel.basic_publish("", "echo", b"hello")
    body = channel.basic_get("echo", auto_ack=True)[2]
    connection.close()
    assert isinstance(body, bytes)
    return body


def test_fixture(rabbitlike_broker: RunningBroker) -> None:
    assert echo(rabbitlike_broker) == b"hello"


def test_each_has_its_own() -> None:
    with run_broker() as one, run_broker(default_user="a/b", default_password="p@", default_vhost="v h") as two:
        assert one.port != two.port
        assert echo(one) == echo(two) == b"hello"
    assert not [thread for thread in threading.enumerate() if thread.name == "rabbitlike" and not thread.daemon]
    with pytest.raises(OSError):
        socket.create_connection((one.host, one.port), 1)


def test_a_folder_may_be_given_as_text(tmp_path: Path) -> None:
    for _ in range(2):
        with run_broker(memory=False, data_dir=str(tmp_path / "data")) as broker:
            assert echo(broker) == b"hello"


def test_a_broker_that_cannot_start_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ListenError, match="the port is taken"), run_broker(port=taken.getsockname()[1]):
            pass
        with (
            pytest.raises(ListenError),
            run_broker(listeners=("amqp://127.0.0.1:0", f"amqp://127.0.0.1:{taken.getsockname()[1]}")),
        ):
            pass

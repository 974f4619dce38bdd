"""Does the installed package work? Run by .ci/wheel in an environment that has it, pika and nothing else.

All hot modules must be compiled; a broker must start, take a message and hand it out, answer over HTTP, and stop.
"""

import base64
import json
import signal
import subprocess
import sys
import urllib.request
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import pika

from rabbitlike import _build

ANNOUNCEMENT = "rabbitlike: listening on "


def check_modules() -> int:
    """Each comes from this environment, as a C extension."""
    for name in _build.HOT:
        file = Path(str(import_module(name).__file__))
        assert file.is_relative_to(sys.prefix), file
        assert file.suffix == ".so", f"{name} is not compiled: {file}"
    return len(_build.HOT)


def check_broker(port: int, http_port: int) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("smoke", durable=True)
    channel.basic_publish("", "smoke", b"hello", pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert channel.basic_get("smoke", auto_ack=True)[2] == b"hello"
    connection.close()
    request = urllib.request.Request(f"http://127.0.0.1:{http_port}/api/queues")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert [queue["name"] for queue in json.load(answer)] == ["smoke"]


def main() -> None:
    count = check_modules()
    command = [str(Path(sys.prefix, "bin", "rabbitlike")), "serve", "--port", "0", "--management-port", "0"]
    with subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--data-dir", "data"], stdout=subprocess.PIPE, text=True
    ) as broker:
        try:
            ports: dict[str, int] = {}
            assert broker.stdout is not None
            while not {"amqp", "http"} <= ports.keys():
                line = broker.stdout.readline()
                assert line, "the broker did not start"
                if line.startswith(ANNOUNCEMENT):
                    url = urlsplit(line.removeprefix(ANNOUNCEMENT).strip())
                    ports[url.scheme] = url.port or 0
            check_broker(ports["amqp"], ports["http"])
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(20) == 0
        finally:
            broker.kill()
    sys.stdout.write(f"the wheel works: {count} compiled modules, a message over AMQP, a list over HTTP\n")


if __name__ == "__main__":
    main()

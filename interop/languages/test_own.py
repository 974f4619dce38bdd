"""What a client's authors run against RabbitMQ themselves, where the package brings it."""

import os
import subprocess

import pytest

from interop.conftest import Address
from interop.languages.languages import GO, LANGUAGES
from tests.support.left_out import NEEDS

PATIENCE_S = 300.0


def test_go(address: Address) -> None:
    """amqp091-go's integration tests: some forty, with what was once a bug of its or of RabbitMQ's."""
    (go,) = (language for language in LANGUAGES if language.name == "go")
    if subprocess.run(go.probe, capture_output=True, check=False).returncode:
        pytest.skip(f"{NEEDS}{go.needs}")
    words = ("test", "-count=1", "-tags", "integration", "github.com/rabbitmq/amqp091-go")
    done = subprocess.run(
        [*GO, *words],
        env=os.environ | {"AMQP_URL": address.url("")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

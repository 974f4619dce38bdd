"""One broker process for the tests that only talk to it; those that stop or configure one start their own."""

from collections.abc import Iterator

import pytest

from tests.support.broker_process import BrokerProcess, running


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with running() as process:
        yield process

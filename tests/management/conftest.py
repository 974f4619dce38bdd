"""Fixtures of the management tests: the API as guest, over a broker in memory."""

from collections.abc import AsyncIterator

import pytest

from tests.support.api import Api, make_api


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with make_api() as client:
        yield client

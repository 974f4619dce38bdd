"""One broker and one browser for all tests of the UI: each declares what it needs, under names of its own."""

from collections.abc import Iterator

import pytest

from interop.management.doors import Doors
from interop.management_ui.site import serving
from interop.management_ui.ui import Ui, browser
from tests.support.broker_process import running


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    with running() as broker:
        doors = Doors("127.0.0.1", broker.port, broker.management_port)
        yield doors
        doors.close()


@pytest.fixture(scope="module")
def session(doors: Doors, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """Logged in as guest."""
    folder = tmp_path_factory.mktemp("chromium")
    with serving(doors.http_port) as url, browser(folder) as driver:
        ui = Ui(driver, url, folder)
        ui.log_in()
        yield ui


@pytest.fixture
def ui(session: Ui) -> Iterator[Ui]:
    yield session
    session.check()

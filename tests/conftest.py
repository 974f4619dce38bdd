"""Rules of the whole suite: never test an old build, in CI let no missing tool pass for a success, one JVM for all;
else say at the end which tools were missing."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

import rabbitlike
from rabbitlike import _build
from tests.support import left_out
from tests.support.left_out import NEEDS
from tests.support.sanitizer import IS_LOADED

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler.loadfile import LoadFileScheduling

ROOT = Path(__file__).resolve().parent.parent
IS_CI = os.environ.get("CI", "").lower() in ("1", "true")
IS_PURE = _build.is_on("RABBITLIKE_PURE")

#: The machine may be busy: no example fails for having taken long.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    if fault := _wrong_build():
        raise pytest.UsageError(fault)
    if not config.pluginmanager.has_plugin(left_out.__name__):  # interop/conftest.py asks for it, too
        config.pluginmanager.register(left_out, left_out.__name__)


def _wrong_build() -> str | None:
    here = Path(rabbitlike.__file__).resolve().parent.parent
    if here != ROOT:
        return f"rabbitlike is imported from {here}, not from {ROOT}: run `make test`"
    built = _build.built_modules()
    if IS_PURE and built:
        return "RABBITLIKE_PURE is set, but compiled modules lie beside the sources: run `make test-pure`"
    if stale := _build.stale_modules():
        return f"{', '.join(stale)}: the source is newer than what was compiled of it; run `make build`"
    missing = set(_build.hot_modules()) - set(built)
    if built and missing:
        return f"{', '.join(sorted(missing))}: not compiled, though others are; run `make build`"
    if IS_CI and not IS_PURE and not built:
        return "nothing is compiled, so the fast build would go untested: install gcc and run `make build`"
    return None


def pytest_report_header() -> str:
    speed = "pure Python" if not _build.built_modules() else "compiled with checks" if IS_LOADED else "compiled"
    return f"rabbitlike {rabbitlike.__version__}, {speed}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadFileScheduling | None":
    """Files run side by side, but those of tests/spark one after the other in one process, which has one JVM."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler.loadfile import LoadFileScheduling

    config.option.loadscopereorder = False  # the order below, not by number of tests

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no process has to wait for another at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/spark/"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if IS_CI and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(NEEDS):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} {reason}; a skip for a missing tool is a failure in CI"
    return report

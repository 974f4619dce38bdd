"""The checked build reports what it is there for: bad indexes, and accesses beyond what was allocated or received."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from setuptools import Distribution

from rabbitlike import _build
from tests.support.broker_process import ROOT
from tests.support.sanitizer import IS_LOADED

only_checked = pytest.mark.skipif(not IS_LOADED, reason="only the checked build checks")

TYPES = {"list": [1, 2], "tuple": (1, 2), "object": [1, 2], "bytearray": bytearray(2)}


def test_a_variable_asks_for_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RABBITLIKE_PURE", "CC"):
        monkeypatch.delenv(name, raising=False)
    if _build.why_pure():
        pytest.skip("there is nothing to compile with")
    for value, is_checked in (("1", True), ("0", False)):
        monkeypatch.setenv("RABBITLIKE_CHECKED", value)
        for extension in _build.extensions():
            assert (_build.SANITIZERS in extension.extra_compile_args) is is_checked
            assert (_build.SANITIZERS in extension.extra_link_args) is is_checked


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A hot module of functions that take an index on trust."""
    folder = tmp_path_factory.mktemp("probe")
    package = folder / "rabbitlike"
    package.mkdir()
    (package / "__init__.py").touch()
    functions, types = "", "cimport cython\n"
    for kind in TYPES:
        functions += f"def get_{kind}(items, at):\n    return items[at]\n\n"
        functions += f"def put_{kind}(items, at):\n    items[at] = 7\n\n" if kind != "tuple" else ""
        types += f"cpdef object get_{kind}({kind} items, Py_ssize_t at)\n"
        types += f"cpdef object put_{kind}({kind} items, Py_ssize_t at)\n" if kind != "tuple" else ""
    (package / "probe.py").write_text(functions)
    (package / "probe.pxd").write_text(types)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_build, "ROOT", folder)
        patch.setattr(_build, "HOT", ("rabbitlike.probe",))
        patch.chdir(folder)
        build = _build.BuildHotPath(Distribution({"packages": ["rabbitlike"], "ext_modules": _build.extensions()}))
        build.inplace = True
        build.ensure_finalized()
        build.run()
        built = _build.path_of("rabbitlike.probe", _build.SUFFIX)
    found = importlib.util.spec_from_file_location("rabbitlike.probe", built)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@only_checked
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("at", [2, -1, -3])
def test_a_bad_index_is_an_error(probe: ModuleType, kind: str, at: int) -> None:
    """A negative one, too: the fast build does not count from the end."""
    items = TYPES[kind]
    assert getattr(probe, f"get_{kind}")(items, 1) == items[1]  # type: ignore[index]
    with pytest.raises(IndexError):
        getattr(probe, f"get_{kind}")(items, at)
    put: Callable[[object, int], None] | None = getattr(probe, f"put_{kind}", None)
    if put is not None:
        with pytest.raises(IndexError):
            put(items, at)


READER = """
from rabbitlike.protocol.frames import FrameReader
from tests.support.sanitizer import nothing_read_behind

class Reader(FrameReader):
    def on_odd_frame(self, kind, number, payload):
        print("a frame", flush=True)

heartbeats = bytearray(b"\\x08\\0\\0\\0\\0\\0\\0\\xce" * 2)
"""


@only_checked
@pytest.mark.parametrize(
    ("read", "frames"),
    [
        ("Reader().feed(heartbeats, 24)", 2),
        ("with nothing_read_behind(heartbeats, 15): Reader().feed(heartbeats, 16)", 1),
        ("with nothing_read_behind(heartbeats, 15): Reader().feed(heartbeats, 15)", None),
    ],
    ids=["behind the buffer", "behind what was received", "not at all"],
)
def test_a_parser_that_reads_too_far_is_stopped(read: str, frames: int | None, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "ASAN_OPTIONS": "detect_leaks=0"}
    ended = subprocess.run(
        [sys.executable, "-c", READER + read],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if frames is None:
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == "a frame\n"
    else:
        assert ended.returncode != 0
        assert ended.stdout == "a frame\n" * frames
        assert "AddressSanitizer" in ended.stderr
        assert "FrameReader_feed" in ended.stderr

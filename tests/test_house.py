"""The layout holds: packages, links and compiled modules are what pyproject.toml and _build.py say they are."""

import ast
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

from rabbitlike import _build

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
ROOMS = ("protocol", "storage", "spark")
IS_PURE = _build.is_on("RABBITLIKE_PURE")


def sources(*suffixes: str) -> list[Path]:
    """The project's own files of these kinds, each once: links are not followed."""
    return [
        Path(folder, name)
        for top in ("rabbitlike", *ROOMS)
        for folder, _, names in os.walk(ROOT / top)
        for name in names
        if name.endswith(suffixes)
    ]


def module_of(file: Path) -> str:
    parts = list(file.relative_to(ROOT).with_suffix("").parts)
    if parts[0] in ROOMS:
        parts.insert(0, "rabbitlike")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_package_is_shipped() -> None:
    on_disk = sorted(module_of(file) for file in sources(".py") if file.name == "__init__.py")
    assert sorted(PROJECT["packages"]) == on_disk


def test_every_folder_with_sources_is_a_package() -> None:
    bare = {file.parent for file in sources(".py") if not (file.parent / "__init__.py").exists()}
    assert not bare


def test_rooms_are_mapped_and_linked() -> None:
    expected = {"rabbitlike": "rabbitlike", **{f"rabbitlike.{room}": room for room in ROOMS}}
    assert PROJECT["package-dir"] == expected
    for room in ROOMS:
        link = ROOT / "rabbitlike" / room
        assert link.is_symlink(), f"{link} is to be a link: restore it with `git checkout {link}`"
        assert os.readlink(link) == f"../{room}"


def test_hot_modules_have_their_pxd() -> None:
    assert _build.hot_modules() == list(_build.HOT), "each hot module has a .py and a .pxd beside it"


def test_every_pxd_is_built() -> None:
    """A .pxd that nobody builds is a module that runs slowly by mistake. Two live in the others."""
    typed = {module_of(file) for file in sources(".pxd") if file.stem != "__init__"}
    assert typed - {"rabbitlike.protocol.octets", "rabbitlike.storage.native"} == set(_build.HOT)


def test_cimported_packages_are_known_to_cython() -> None:
    for name in _build.HOT:
        package = _build.path_of(name, ".pxd").parent
        assert (package / "__init__.pxd").exists(), f"Cython finds no .pxd of {package} without one"


def test_hot_sources_are_plain_python() -> None:
    for name in _build.HOT:
        tree = ast.parse(_build.path_of(name, ".py").read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names} | {
            str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        }
        assert not any(module.lower().startswith("cython") for module in imported), name


def test_what_runs_is_what_was_asked_for() -> None:
    built = set(_build.built_modules())
    if IS_PURE:
        assert not built
    elif built:
        assert built == set(_build.HOT)
        assert not _build.stale_modules()
    else:
        pytest.skip("needs a compiled build")


@pytest.mark.parametrize(
    ("compiler", "said"),
    [("no-such-compiler", "there is no C compiler ('no-such-compiler'"), ("false", "compiler does not work ('false'")],
)
def test_no_compiler_means_the_pure_build_unless_one_insists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiler: str, said: str
) -> None:
    monkeypatch.setenv("CC", compiler)
    monkeypatch.delenv("RABBITLIKE_PURE", raising=False)
    assert _build.extensions() == []
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    monkeypatch.setenv("RABBITLIKE_PURE", "0")
    with pytest.raises(SystemExit, match=rf"asks for C extensions.*{re.escape(said)}"):
        _build.extensions()


def test_the_first_start_says_how_long_it_takes_and_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "setup.py").touch()
    said = subprocess.run(["make", "-n", "run"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "two to three minutes" in said
    assert [step in said for step in ("1 of 3", "2 of 3", "3 of 3")] == [True] * 3
    assert "--quiet" not in said

    build = _build.BuildHotPath(Distribution({"ext_modules": [Extension(name, []) for name in _build.HOT[:2]]}))
    build.extensions = build.distribution.ext_modules
    monkeypatch.setattr(_build.BuildHotPath, "_cythonize", lambda self: None)
    monkeypatch.setattr(build_ext, "build_extension", lambda self, ext: None)
    build.build_extensions()
    assert capsys.readouterr().out.splitlines() == [
        f"rabbitlike: compiled {number} of 2: {name}" for number, name in enumerate(_build.HOT[:2], 1)
    ]


def test_a_changed_source_makes_its_build_stale(tmp_path: Path) -> None:
    built = tmp_path / "module.so"
    name = _build.HOT[0]
    assert _build.is_stale(name, built), "what is missing is stale"
    built.touch()
    assert not _build.is_stale(name, built)
    newest = max(file.stat().st_mtime for file in _build.made_of(name))
    os.utime(built, (newest - 1, newest - 1))
    assert _build.is_stale(name, built)


@pytest.mark.skipif(not _build.built_modules(), reason="nothing is compiled here")
def test_a_wheel_takes_what_is_compiled_already(tmp_path: Path) -> None:
    build = _build.BuildHotPath(Distribution({"ext_modules": [Extension(name, []) for name in _build.HOT]}))
    build.build_lib, build.build_temp = str(tmp_path / "lib"), str(tmp_path / "temp")
    build.ensure_finalized()
    build.run()
    made = sorted(str(file.relative_to(tmp_path / "lib")) for file in (tmp_path / "lib").rglob("*.so"))
    assert made == sorted(name.replace(".", "/") + _build.SUFFIX for name in _build.HOT)


def test_make_builds_a_wheel() -> None:
    done = subprocess.run(["make", "-n", "wheel"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip wheel" in done.stdout


def test_a_build_is_made_of_all_that_is_cimported() -> None:
    parts = {file.name for file in _build.made_of("rabbitlike.session.channel")}
    assert {"channel.py", "channel.pxd", "_build.py", "octets.pxd", "frames.pxd"} <= parts


@pytest.mark.parametrize("file", sources(".py"), ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_says_what_it_is(file: Path) -> None:
    said = ast.get_docstring(ast.parse(file.read_text()))
    assert said
    assert len(said.splitlines()) <= 8, "a few lines: what lives here, what must stay true"


def test_every_promise_of_the_queue_model_has_a_test() -> None:
    """A test's docstring starts with the numbers it proves; what docs/promises.md says is not kept has none."""
    page = (ROOT / "docs" / "promises.md").read_text()
    parts = page.partition("## Not kept")
    kept, _, broken = (set(re.findall(r"^\| ([FGS]\d+) \|", part, re.MULTILINE)) for part in parts)
    numbers = {"F": (*range(1, 12), 15, *range(17, 22), 23), "G": (*range(5, 14), 18, 19, 20), "S": range(1, 15)}
    assert kept | broken == {f"{letter}{number}" for letter, some in numbers.items() for number in some}
    assert proved_promises() == kept


def proved_promises() -> set[str]:
    found: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                said = re.match(r"(?:#\d+[ ,]*)*((?:[FGS]\d+[ ,]*)+)", ast.get_docstring(node) or "")
                found.update(re.findall(r"\w+", said[1]) if said else ())
    return found

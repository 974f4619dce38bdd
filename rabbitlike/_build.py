"""Compiles the hot modules to C extensions: plain Python with a `.pxd` of the same name for the C types.

Without a compiler, or with RABBITLIKE_PURE=1, nothing is built and the same source runs as plain Python. With
RABBITLIKE_PURE=0 the build fails if it cannot compile, so that the slow build is not installed by accident. With
RABBITLIKE_CHECKED=1 indexes and memory accesses are checked, for tests (`make test-checked`). A module is built if HOT
lists it and its `.pxd` exists; it is rebuilt if one of its sources changed. Used by setup.py and tests/conftest.py,
never by the broker.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Extension
    from setuptools.command.build_ext import build_ext
else:
    try:
        from setuptools import Extension
        from setuptools.command.build_ext import build_ext
    except ImportError:  # stale_modules() needs no setuptools
        build_ext = object

ROOT = Path(__file__).resolve().parent.parent
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")

#: Modules on the path of a message. `protocol.octets` and `storage.native` are left out on purpose: their `.pxd` hold
#: the C twins of their functions, which are cimported into the modules below; compiling them would only hide those.
HOT = (
    "rabbitlike.protocol.tables",
    "rabbitlike.protocol.methods",
    "rabbitlike.protocol.frames",
    "rabbitlike.protocol.content",
    "rabbitlike.protocol.properties",
    "rabbitlike.storage.encodings",
    "rabbitlike.storage.thrift",
    "rabbitlike.broker.statistics.counters",
    "rabbitlike.broker.message",
    "rabbitlike.broker.ports",
    "rabbitlike.broker.turn",
    "rabbitlike.broker.tracing.events",
    "rabbitlike.broker.tracing.tracer",
    "rabbitlike.broker.journal",
    "rabbitlike.broker.queues.storage.record",
    "rabbitlike.broker.queues.storage.log",
    "rabbitlike.broker.queues.ordering.fairness",
    "rabbitlike.broker.queues.ordering.ring",
    "rabbitlike.broker.queues.ordering.level",
    "rabbitlike.broker.queues.ordering.ready",
    "rabbitlike.broker.queues.consumers",
    "rabbitlike.broker.queues.expiry",
    "rabbitlike.broker.queues.limits",
    "rabbitlike.broker.queues.queue",
    "rabbitlike.broker.queues.runs",
    "rabbitlike.broker.queues.deposit",
    "rabbitlike.broker.publishing.publication",
    "rabbitlike.broker.delays.times",
    "rabbitlike.broker.delays.schedule",
    "rabbitlike.broker.delays.log",
    "rabbitlike.broker.delays.routes",
    "rabbitlike.broker.delays.delays",
    "rabbitlike.session.outlet",
    "rabbitlike.session.throttle",
    "rabbitlike.session.unacked",
    "rabbitlike.session.confirms",
    "rabbitlike.session.consumer",
    "rabbitlike.session.publisher",
    "rabbitlike.session.channel",
    "rabbitlike.session.flow",
    "rabbitlike.session.connection",
)

#: Printed to users who wait for the first build.
DURATION = "all of them take about two minutes on two cores, the first time only"

DIRECTIVES = {
    "language_level": 3,
    # The `.py` stays ordinary Python: its annotations are for mypy and the reader.
    "annotation_typing": False,
    "binding": False,
    # The code itself checks every index into a buffer against its length, once per frame, not once per octet.
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "nonecheck": False,
    "cdivision": True,
}

#: The checked build: Cython checks indexes of lists, tuples, bytes, bytearrays and memoryviews, and attributes of None;
#: the sanitizers check pointers, overflows and divisions.
CHECKS = {"boundscheck": True, "initializedcheck": True, "nonecheck": True, "show_performance_hints": False}
SANITIZERS = "-fsanitize=address,undefined"

#: Directives for classes of single modules. Cython silently ignores them before a class of a `.pxd` and rejects them
#: before one of a `.py`, so they apply to all classes of a module.
CLASS_DIRECTIVES: dict[str, dict[str, int]] = {
    # Queues hold millions of messages: the cycle collector must not visit them, and they refer to no other message.
    "rabbitlike.broker.message": {"no_gc": True, "freelist": 8192},
    "rabbitlike.protocol.properties": {"no_gc": True},
}

#: How a generated module passes an index. Out of bounds, Cython leaves it to Python, which counts a negative index from
#: the end, unlike the fast build; so the checked build replaces negative indexes by one that no list has.
_INDEX = re.compile(r"(__Pyx_(?:Get|Set|Del)ItemInt\w*_Fast\(o, )\(Py_ssize_t\)i(?=.*wraparound)")
_NO_NEGATIVE_INDEX = r"\1((wraparound) || (Py_ssize_t)(i) >= 0 ? (Py_ssize_t)(i) : PY_SSIZE_T_MIN)"

_CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport\s+(.+)|cimport\s+([\w., ]+))", re.MULTILINE)


def path_of(name: str, suffix: str) -> Path:
    """The path of a module's file with this suffix, whether it exists or not, without the links."""
    parts = name.split(".")
    if (ROOT / parts[1] / "__init__.py").exists():  # protocol, storage and spark are beside rabbitlike
        parts = parts[1:]
    return ROOT.joinpath(*parts).with_name(parts[-1] + suffix)


def hot_modules() -> list[str]:
    """The modules to compile in this tree."""
    return [name for name in HOT if path_of(name, ".pxd").exists() and path_of(name, ".py").exists()]


def made_of(name: str) -> set[Path]:
    """All files whose change makes the built module stale: its own two, and every `.pxd` it cimports transitively."""
    found = {Path(__file__).resolve(), path_of(name, ".py")}
    waiting = [name]
    while waiting:
        pxd = path_of(waiting.pop(), ".pxd")
        if pxd not in found and pxd.exists():
            found.add(pxd)
            waiting.extend(each for each in _cimported(pxd.read_text()) if each.startswith("rabbitlike."))
    return found


def _cimported(text: str) -> Iterator[str]:
    for source, names, plain in _CIMPORT.findall(text):
        if source:
            yield source
            yield from (f"{source}.{name}" for name in re.findall(r"\w+", names))
        yield from re.findall(r"[\w.]+", plain)


def is_stale(name: str, built: Path) -> bool:
    """Whether `built` is missing or older than one of its sources."""
    if not built.exists():
        return True
    built_at = built.stat().st_mtime_ns
    return any(file.stat().st_mtime_ns > built_at for file in made_of(name))


def stale_modules() -> list[str]:
    """Modules with an `.so` older than their source. A module that was never built is not stale but pure."""
    return [name for name in HOT if (so := path_of(name, SUFFIX)).exists() and is_stale(name, so)]


def built_modules() -> list[str]:
    """Modules that run as C extensions in this tree."""
    return [name for name in HOT if path_of(name, SUFFIX).exists()]


def is_on(variable: str) -> bool:
    """Whether an environment variable is set to a value other than 0."""
    return os.environ.get(variable, "0") not in ("", "0")


def why_pure() -> str | None:
    """Why modules cannot or should not be compiled; None if they can."""
    if is_on("RABBITLIKE_PURE"):
        return "RABBITLIKE_PURE is set"
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return f"there is no C compiler ('{command[0]}'; install gcc)"
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        return "Python.h is missing (install python3-dev)"
    # A compiler without the C library's headers is useless; Debian can install gcc that way.
    tried = subprocess.run(
        [*command, f"-I{include}", "-fsyntax-only", "-xc", "-"], input=b"#include <Python.h>", capture_output=True
    )
    if tried.returncode != 0:
        return f"the C compiler does not work ('{command[0]}'; install gcc and libc6-dev)"
    try:
        import Cython  # noqa: F401
    except ImportError:
        return "Cython is not installed"
    return None


def extensions() -> "list[Extension]":
    """The extensions for setup() to build; empty, with one line that gives the reason, for the pure build."""
    if reason := why_pure():
        if os.environ.get("RABBITLIKE_PURE") == "0":
            raise SystemExit(f"rabbitlike: RABBITLIKE_PURE=0 asks for C extensions, which cannot be built: {reason}")
        print(f"rabbitlike: building no C extensions, the broker will run slower: {reason}", file=sys.stderr)
        return []
    flags, linked = ["-O3", "-g0", "-Wno-sign-compare", "-Wno-unreachable-code"], []
    if is_on("RABBITLIKE_CHECKED"):
        linked = [SANITIZERS]
        # A fault ends the process. Not optimised: it must compile quickly.
        flags = ["-O0", "-g1", "-w", "-fno-omit-frame-pointer", SANITIZERS, "-fno-sanitize-recover=all"]
    return [
        Extension(
            name,
            [str(path_of(name, ".py").relative_to(ROOT))],
            extra_compile_args=flags,
            extra_link_args=linked,
        )
        for name in hot_modules()
    ]


class BuildHotPath(build_ext):
    """Runs Cython on a staged copy of the sources, then the C compiler on the result."""

    parallel: int | None
    extensions: "list[Extension]"
    _compiled: "count[int]"

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        in_tree = bool(self.inplace)
        if not in_tree and not self.force:
            self._take_built()
        if in_tree and not self.force:
            self.extensions = [ext for ext in self.extensions if is_stale(ext.name, path_of(ext.name, SUFFIX))]
        started_at = time.time()
        super().run()
        if in_tree:  # a source edited during compilation must count as newer than the result
            for ext in self.extensions:
                os.utime(path_of(ext.name, SUFFIX), (started_at, started_at))

    def _take_built(self) -> None:
        """Copy up-to-date extensions from the tree into a wheel, instead of compiling them again."""
        for ext in list(self.extensions):
            built = path_of(ext.name, SUFFIX)
            if not is_stale(ext.name, built):
                target = Path(self.get_ext_fullpath(ext.name))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(built, target)
                self.extensions.remove(ext)

    def build_extensions(self) -> None:
        self._cythonize()
        self._compiled = count(1)
        super().build_extensions()

    def build_extension(self, ext: "Extension") -> None:
        """Build one extension and report progress: gcc is silent for minutes."""
        super().build_extension(ext)
        print(f"rabbitlike: compiled {next(self._compiled)} of {len(self.extensions)}: {ext.name}", flush=True)

    def _cythonize_all(self) -> "list[Extension]":
        from Cython.Build import cythonize
        from Cython.Compiler.Options import get_directive_defaults

        common = {**DIRECTIVES, **(CHECKS if is_on("RABBITLIKE_CHECKED") else {})}
        plain = [ext for ext in self.extensions if ext.name not in CLASS_DIRECTIVES]
        processes = os.cpu_count() or 1
        made: list[Extension] = cythonize(plain, compiler_directives=common, force=True, nthreads=processes)
        for name in ("no_gc", "freelist"):
            get_directive_defaults().setdefault(name, False)  # otherwise Cython rejects them as unknown
        for ext in self.extensions:
            if ext.name in CLASS_DIRECTIVES:
                directives = {**common, **CLASS_DIRECTIVES[ext.name]}
                made += cythonize([ext], compiler_directives=directives, force=True, quiet=True)
        return made

    def _cythonize(self) -> None:
        """Run Cython in a staging folder with the tree as it is imported, with or without the links, and without
        `.c`."""
        stage = Path(self.build_temp, "hot").resolve()
        shutil.rmtree(stage, ignore_errors=True)
        _stage(stage, self.distribution.packages or ())
        if self.extensions:
            print(f"rabbitlike: compiling {len(self.extensions)} of {len(HOT)} modules; {DURATION}", flush=True)
        for ext in self.extensions:
            ext.sources = [f"{ext.name.replace('.', '/')}.py"]
        here = Path.cwd()
        os.chdir(stage)  # so that tracebacks name rabbitlike/…, not the staging folder
        try:
            made = self._cythonize_all()
        finally:
            os.chdir(here)
        sources = {ext.name: ext.sources for ext in made}
        for ext in self.extensions:
            ext.sources = [str(stage / source) for source in sources[ext.name]]
        if is_on("RABBITLIKE_CHECKED"):
            for ext in self.extensions:
                _refuse_negative_indexes(Path(ext.sources[0]))


def _stage(stage: Path, packages: Iterable[str]) -> None:
    for package in packages:
        source = path_of(f"{package}.__init__", ".py").parent
        target = stage.joinpath(*package.split("."))
        target.mkdir(parents=True, exist_ok=True)
        for file in (*source.glob("*.py"), *source.glob("*.pxd")):
            shutil.copy2(file, target)


def _refuse_negative_indexes(generated: Path) -> None:
    generated.write_text(_INDEX.sub(_NO_NEGATIVE_INDEX, generated.read_text()))

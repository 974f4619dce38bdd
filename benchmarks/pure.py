"""Runs rabbitlike from its Python sources even if compiled modules lie beside them.

python -P benchmarks/pure.py serve --memory --port 5672
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType


class SourcesOnly:
    """Finds the package's modules as .py files and leaves all others to the usual finders."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("rabbitlike.") or path is None:
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, [".py"])).find_spec(name)
            if spec is not None:
                return spec
        return PathFinder.find_spec(name, path, target)


def main() -> None:
    sys.meta_path.insert(0, SourcesOnly)
    if sys.argv[1:] == ["--build"]:
        import rabbitlike
        import rabbitlike.protocol.frames as frames

        print(rabbitlike.__version__, "compiled" if str(frames.__file__).endswith(".so") else "pure")
        return
    runpy.run_module("rabbitlike", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

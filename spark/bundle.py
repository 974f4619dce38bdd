"""`python -m rabbitlike.spark.bundle out.zip`: all that executors need, for `spark-submit --py-files out.zip`.

The package and the protocol it speaks, as plain Python, with the one library that has the names of AMQP's methods.
"""

import sys
import zipfile
from pathlib import Path
from typing import Final

import pamqp

import rabbitlike
from rabbitlike import protocol, spark

_PACKAGES: Final = {"rabbitlike/protocol": protocol, "rabbitlike/spark": spark, "pamqp": pamqp}


def write(target: Path) -> int:
    """How many modules are in it."""
    files = {"rabbitlike/__init__.py": Path(rabbitlike.__file__)}
    for name, package in _PACKAGES.items():
        folder = Path(package.__path__[0])
        files |= {f"{name}/{file.relative_to(folder)}": file for file in sorted(folder.rglob("*.py"))}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, file in files.items():
            bundle.write(file, name)
    return len(files)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m rabbitlike.spark.bundle out.zip")
    count = write(Path(sys.argv[1]))
    sys.stdout.write(f"{sys.argv[1]}: {count} modules\n")


if __name__ == "__main__":
    main()

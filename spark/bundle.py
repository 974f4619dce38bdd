"""`python -m rabbitlike.spark.bundle out.zip`: a zip file for executors, for `spark-submit --py-files out.zip`.

It contains this package and the protocol package as plain Python, and the library with the AMQP methods.
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
    """Write the bundle; return its number of modules."""
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

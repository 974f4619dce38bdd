"""Checks for Java, which pip does not install, before Spark fails with an obscure error."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

OLDEST: Final = 17
HOW: Final = (
    "install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17) or set JAVA_HOME to where it is"
)


class NoJava(Exception):
    """Java is missing or too old; the text says what to install."""


def require() -> Path:
    """Return the `java` that Spark will start; raise NoJava if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise NoJava(f"Spark needs Java {OLDEST} or newer, and none was found {where}: {HOW}")
    version = version_of(found)
    if version < OLDEST:
        raise NoJava(f"Spark needs Java {OLDEST} or newer, and {found} is Java {version}: {HOW}")
    return Path(found)


def version_of(java: str) -> int:
    """Return the major version: 8 for 1.8.0_392, 17 for 17.0.15; 0 if it cannot be determined."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else 0

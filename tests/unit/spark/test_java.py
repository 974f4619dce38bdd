"""No Java, or an old one, is told in one line that says what to do."""

from pathlib import Path

import pytest

from rabbitlike.spark.java import NoJava, require, version_of


def pretend(folder: Path, said: str) -> Path:
    """A java that says this of its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25"', 25),
        ("?", 0),
    ],
)
def test_versions(tmp_path: Path, said: str, version: int) -> None:
    assert version_of(str(pretend(tmp_path, said))) == version


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match=r"none was found in JAVA_HOME .*: install it .*openjdk-17-jre-headless"):
        require()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoJava, match="none was found on the PATH"):
        require()


def test_an_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = pretend(tmp_path, 'openjdk version "11.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match="is Java 11: install"):
        require()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.8\"' >&2\n")
    assert require() == java

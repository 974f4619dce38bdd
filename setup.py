"""What pyproject.toml cannot say: which modules are compiled, and how (rabbitlike/_build.py)."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rabbitlike._build import BuildHotPath, extensions

setup(cmdclass={"build_ext": BuildHotPath}, ext_modules=extensions())

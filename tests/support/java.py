"""Small Java programs: compiled once, run on a JDK of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pybroker.testing.cache import built_once
from pybroker.testing.java import java_command, java_tool

__all__ = ["compiled", "java_command", "java_tool"]


def compiled(source: Path, libraries: Path) -> str:
    """The class path on which the program in the one file `source` runs."""

    def build(folder: Path) -> None:
        subprocess.run(
            [java_tool("javac"), "-cp", f"{libraries}/*", "-d", str(folder), str(source)],
            check=True,
            timeout=300,
        )

    classes = built_once("classes", [source.read_bytes(), libraries.name], build)
    return f"{classes}{os.pathsep}{libraries}/*"

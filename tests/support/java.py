"""Small Java programs: compiled once, run on a JDK of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.cache import built_once


def java_tool(name: str) -> str:
    """`java` or `javac` of `JAVA_HOME` if that is set, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", name)) if home else shutil.which(name)
    if not found:
        raise RuntimeError(f"{name} is not installed: a JDK of version 17 or newer is needed")
    return found


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


def java_command(class_path: str, main: str, arguments: Sequence[str] = (), heap: str = "256m") -> list[str]:
    """A command that runs `main`, with a JVM told to start quickly and stay small."""
    return [
        java_tool("java"),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        class_path,
        main,
        *arguments,
    ]

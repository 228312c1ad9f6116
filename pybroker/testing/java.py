"""A JVM of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For a JVM that does little: it compiles less, and starts in half of the time where cores are few."""


class NoJavaError(RuntimeError):
    """There is no JVM; the text says what is needed."""


def java_tool(name: str) -> str:
    """`java` or `javac` of `JAVA_HOME` if that is set, else the one on the path. Raises NoJavaError."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", name)) if home else shutil.which(name)
    if not found:
        raise NoJavaError(f"{name} is not installed: a JDK of version 17 or newer is needed")
    return found


def java_command(class_path: str, main: str, arguments: Sequence[str] = (), heap: str = "256m") -> list[str]:
    """A command that runs `main`, with a JVM told to start quickly and stay small."""
    return [
        java_tool("java"),
        f"-Xmx{heap}",
        *QUICK_START,
        "-cp",
        class_path,
        main,
        *arguments,
    ]

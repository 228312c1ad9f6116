"""The JVM of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""JVM options for short-lived programs: less compilation, about half the start time on few cores."""


class NoJavaError(RuntimeError):
    """No JVM is installed; the text says which one is needed."""


def java_tool(name: str) -> str:
    """Return the path of `java` or another tool, from `JAVA_HOME` if set, else from PATH. Raises NoJavaError."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", name)) if home else shutil.which(name)
    if not found:
        raise NoJavaError(f"{name} is not installed; install a JDK of version 17 or newer")
    return found


def java_command(class_path: str, main: str, arguments: Sequence[str] = (), heap: str = "256m") -> list[str]:
    """Return a command that runs `main` in a small JVM that starts quickly."""
    return [
        java_tool("java"),
        f"-Xmx{heap}",
        *QUICK_START,
        "-cp",
        class_path,
        main,
        *arguments,
    ]

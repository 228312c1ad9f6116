"""Small Java programs: compiled once, run on this machine's JDK."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pybroker.testing.download_cache import built_once
from pybroker.testing.maven import java_command, java_tool

__all__ = ["compiled", "java_command", "java_tool", "running"]


def compiled(source: Path, libraries: Path) -> str:
    """Compile the program in the file `source`; return its class path."""

    def build(folder: Path) -> None:
        subprocess.run(
            [java_tool("javac"), "-cp", f"{libraries}/*", "-d", str(folder), str(source)],
            check=True,
            timeout=300,
        )

    classes = built_once("classes", [source.read_bytes(), libraries.name], build)
    return f"{classes}{os.pathsep}{libraries}/*"


@contextmanager
def running(command: Sequence[str], output: Path = Path(os.devnull)) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program during the block, then kill it. Its output is appended to `output`."""
    with output.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()

"""Small Java programs: compiled once, run on a JDK of this machine."""

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
    """The class path on which the program in the one file `source` runs."""

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
    """A program for as long as the block takes, killed then; what it says goes to the end of `output`."""
    with output.open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()

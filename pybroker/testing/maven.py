"""Java for tests: the JVM of this machine, and libraries from Maven Central. pom.xml pins their versions; a list of
checksums pins their content."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pybroker.testing.download_cache import DownloadError, built_once, run_download


def copy_dependencies(pom: Path, folder: Path) -> None:
    """Copy the jars in `pom` and their dependencies into `folder`. Raises DownloadError."""
    if shutil.which("mvn") is None:
        raise DownloadError("Apache Maven (mvn) is not installed; it downloads Java libraries")
    arguments = ["-B", "-q", "-ntp", "-f", str(pom), "dependency:copy-dependencies"]
    run_download(["mvn", *arguments, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"])


def pinned_jars(kind: str, pom: Path, checksums: Path) -> Path:
    """Return a folder with the jars in `pom`, which are downloaded once. checksums: a file in the format of
    `sha256sum`, one line for each jar. Raises DownloadError, also if a jar differs from the list.
    """
    lines = checksums.read_text()

    def build(folder: Path) -> None:
        copy_dependencies(pom, folder)
        compare_checksums(folder, lines)

    return built_once(kind, [pom.read_bytes(), lines], build)


def compare_checksums(folder: Path, lines: str) -> None:
    """Remove `folder` and raise DownloadError if its jars are not those of `lines`, which are in sha256sum's format."""
    wanted = {name: digest for digest, name in (line.split() for line in lines.splitlines())}
    fetched = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong: Sequence[str] = sorted(name for name in {*fetched, *wanted} if fetched.get(name) != wanted.get(name))
    if wrong:
        shutil.rmtree(folder)
        raise DownloadError(f"unexpected files from Maven Central: {', '.join(wrong)}")


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

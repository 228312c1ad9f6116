"""The jars of Spark's Kafka connector, fetched once from Maven Central."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
ATTEMPTS_MAX = 4
TIMEOUT_S = 600


class ConnectorError(Exception):
    """The jars could not be fetched; the message says why."""


def connector_jars() -> list[str]:
    """Paths of the jars that `pom.xml` names, kept in the user's cache between runs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"
    folder = cache / f"spark-connector-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    complete = folder / ".complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _copy_dependencies(folder)
        complete.touch()
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def _copy_dependencies(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConnectorError("Apache Maven (mvn) is needed to fetch Spark's Kafka connector")
    command = [maven, "-B", "-q", "-ntp", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    for attempt in range(1, ATTEMPTS_MAX + 1):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode == 0:
            return
        time.sleep(2 * attempt)
    raise ConnectorError(f"mvn failed {ATTEMPTS_MAX} times:\n{(done.stdout + done.stderr)[-2000:]}")

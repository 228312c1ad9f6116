"""The jars of Spark's Kafka connector, fetched once from Maven Central."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pybroker.testing.download_cache import DownloadError
from pybroker.testing.maven import copy_dependencies

POM = Path(__file__).with_name("pom.xml")


class ConnectorError(Exception):
    """The jars could not be fetched; the message has the reason."""


def connector_jars() -> list[str]:
    """Return the paths of the jars in `pom.xml`, cached in the user's cache directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"
    folder = cache / f"spark-connector-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    complete = folder / ".complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            copy_dependencies(POM, folder)
        except DownloadError as problem:
            raise ConnectorError(f"cannot download Spark's Kafka connector: {problem}") from None
        complete.touch()
    return sorted(str(jar) for jar in folder.glob("*.jar"))

"""The cache of downloads and builds between test runs, with locks between concurrent runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DOWNLOAD_ATTEMPTS_MAX = 4
DOWNLOAD_TIMEOUT_S = 540


class DownloadError(RuntimeError):
    """A download failed; the text has the end of the tool's output."""


def cache_dir() -> Path:
    """Return this user's cache folder; `PYBROKER_TEST_CACHE` sets another folder."""
    named = os.environ.get("PYBROKER_TEST_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else base / "pybroker-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Hold the lock file, so that two test runs never fill the same folder at the same time."""
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def built_once(kind: str, ingredients: Sequence[str | bytes], build: Callable[[Path], None]) -> Path:
    """Return a folder that `build` has filled for these ingredients. An interrupted build starts again."""
    digest = hashlib.sha256()
    for part in ingredients:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    folder = cache_dir() / f"{kind}-{digest.hexdigest()[:16]}"
    complete = folder / ".complete"
    if complete.exists():
        return folder
    with _only_one(cache_dir() / f"{folder.name}.lock"):
        if not complete.exists():
            folder.mkdir(exist_ok=True)
            build(folder)
            complete.touch()
    return folder


def run_download(command: Sequence[str], **options: Any) -> None:
    """Run a command that downloads from a package registry. Retry, because registries drop connections. Raises
    DownloadError.
    """
    for attempt in range(1, DOWNLOAD_ATTEMPTS_MAX + 1):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
            **options,
        )
        if done.returncode == 0:
            return
        if attempt == DOWNLOAD_ATTEMPTS_MAX:
            raise DownloadError(f"{command[0]} failed {attempt} times:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        time.sleep(2 * attempt)

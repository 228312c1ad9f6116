"""Python environments with other releases of packages than the tests' own environment, made once per lock file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pybroker.testing.download_cache import built_once, run_download

# The extension modules of old releases have wheels for this version of Python, and not for later ones.
PYTHON = "python3.11"
_LOCKED = re.compile(r"^(\S+)==.*(?:\n .*)*", re.MULTILINE)


def interpreter() -> str | None:
    """Return the path of Python 3.11; None if this machine does not have it."""
    return sys.executable if sys.version_info[:2] == (3, 11) else shutil.which(PYTHON)


def with_packages(name: str, lock: Path, shared: Path, also: Sequence[str] = ()) -> Path:
    """Return the interpreter of an environment with the packages that `lock` pins, and with the packages `also` of the
    lock file `shared`.

    Every package must match its hashes in these files.
    """
    entries = {found[1]: found[0] for found in _LOCKED.finditer(shared.read_text())}
    pinned = "\n".join([lock.read_text(), *(entries[package] for package in also)]) + "\n"
    python = interpreter()
    assert python is not None, f"{PYTHON} is not installed"

    def build(folder: Path) -> None:
        (folder / "requirements.lock").write_text(pinned)
        subprocess.run([python, "-m", "venv", "--clear", str(folder / "venv")], check=True, timeout=300)
        pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        run_download([*pip, "--require-hashes", "-r", str(folder / "requirements.lock")])

    return built_once(f"venv-{name}", [python, pinned], build) / "venv" / "bin" / "python"

"""The installed version, and the packages of its extras."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path


@cache
def version() -> str:
    """Return the version of the installed package, as in pyproject.toml; "unknown" if pybroker runs without being
    installed.

    Reads the package's metadata file itself if it can: importlib.metadata imports email, zipfile and csv, which takes
    2 MiB of memory in each broker of a cluster.
    """
    for folder in sys.path:
        for metadata in Path(folder).glob("pybroker-*.dist-info/METADATA"):
            found = re.search(r"^Version: *(\S+)", metadata.read_text(encoding="utf-8"), re.MULTILINE)
            if found is not None:
                return found[1]
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("pybroker")
    except PackageNotFoundError:
        return "unknown"


def packages_of(extra: str) -> str:
    """Return the packages of an extra of pyproject.toml as arguments of `pip install`, quoted for a shell.

    They do not name pybroker, which no package index has.
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        marked = [each.partition(";") for each in requires("pybroker") or ()]
    except PackageNotFoundError:
        return f"'.[{extra}]'"
    named = (name.strip() for name, _, marker in marked if re.search(rf"""extra == ['"]{extra}['"]""", marker))
    return " ".join(f"'{each}'" for each in named)

"""The installed version, and the packages of its extras."""

from __future__ import annotations

import re


def version() -> str:
    """Return the version of the installed package, as in pyproject.toml; "unknown" if pybroker runs without being
    installed."""
    from importlib.metadata import PackageNotFoundError  # slow to import; only --version and /metrics need it
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

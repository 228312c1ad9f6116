"""The installed version."""

from __future__ import annotations


def version() -> str:
    """Return the version of the installed package, as in pyproject.toml; "unknown" if pybroker runs without being
    installed."""
    from importlib.metadata import PackageNotFoundError  # slow to import; only --version and /metrics need it
    from importlib.metadata import version as installed_version

    try:
        return installed_version("pybroker")
    except PackageNotFoundError:
        return "unknown"

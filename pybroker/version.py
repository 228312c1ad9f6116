"""The version of this installation."""

from __future__ import annotations


def version() -> str:
    """As in pyproject.toml, read from the installed package; "unknown" where pybroker runs without being installed."""
    from importlib.metadata import PackageNotFoundError  # slow to import; only --version and /metrics ask
    from importlib.metadata import version as installed_version

    try:
        return installed_version("pybroker")
    except PackageNotFoundError:
        return "unknown"

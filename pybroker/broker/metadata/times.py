"""Formats of times in log lines and error messages."""

from __future__ import annotations

import datetime


def time_text(wall_ms: int) -> str:
    """Return a time as in log lines and error messages: UTC, to the second."""
    return datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC).isoformat(timespec="seconds")

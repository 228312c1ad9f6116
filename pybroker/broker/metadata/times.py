"""How times are said in log lines and error messages."""

from __future__ import annotations

import datetime


def time_text(wall_ms: int) -> str:
    """A time as log lines and error messages show it: UTC, to the second."""
    return datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC).isoformat(timespec="seconds")

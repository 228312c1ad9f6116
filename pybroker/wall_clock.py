"""The machine's wall clock. The control plane uses `pybroker.broker.clock` instead, which tests replace."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Return milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000

"""Clocks. They are objects, so that tests can replace them.

Wall time goes to disk and to clients; monotonic time measures waiting. A stored deadline is wall time. It is converted
to monotonic time once, when it is loaded, so that later jumps of the wall clock do not change it.
"""

from __future__ import annotations

import time
from typing import Protocol

from pybroker import wall_clock


class Clock(Protocol):
    """The source of time for every part of the control plane."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds from an arbitrary start; never decreases."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return wall_clock.wall_ms()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class FakeClock:
    """A clock that only tests advance; `jump` moves wall time only, as an operator or NTP would."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 1_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Advance both clocks by `ms`."""
        self._wall_ms += ms
        self._monotonic_ms += ms

    def jump(self, ms: int) -> None:
        """Move the wall clock forward or back; the monotonic clock stays."""
        self._wall_ms += ms

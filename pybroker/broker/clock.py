"""Time as an object, so that tests can move it.

Wall time goes to disk and to clients; monotonic time measures waiting. A deadline that was stored as wall time is
turned into monotonic time once, when it is loaded, and counted down from there: a wall clock that jumps moves
nothing.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What every part of the control plane asks for the time."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class FakeClock:
    """A clock that stands still until a test moves it; `jump` moves wall time only, as an operator or NTP would."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 1_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Lets `ms` pass on both clocks."""
        self._wall_ms += ms
        self._monotonic_ms += ms

    def jump(self, ms: int) -> None:
        """Sets the wall clock forward or back without time passing."""
        self._wall_ms += ms

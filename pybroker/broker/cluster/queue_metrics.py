"""Metrics of the controller's event queue: waiting time and processing time."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec


class Timer(msgspec.Struct):
    """Count and total duration since the start."""

    count: int = 0
    total_ms: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one event."""
        self.count += 1
        self.total_ms += seconds * 1000


class QueueFigures:
    """Queue metrics, summed over all terms in which this broker was the controller. `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.waited = Timer()
        """Time from an event's arrival to its turn."""
        self.worked: dict[str, Timer] = {}
        """By the name of the event's class: time from the start of processing an event to the start of processing the
        next.
        """
        self._at_work: tuple[str, float] | None = None

    def now(self) -> float:
        """Return the current time. The caller stores it with an arriving event."""
        return self._clock()

    def idle(self) -> None:
        """Note that the controller has finished an event and waits for the next event."""
        if self._at_work is not None:
            name, since = self._at_work
            self.worked.setdefault(name, Timer()).add(self._clock() - since)
            self._at_work = None

    def begins(self, name: str, came: float) -> None:
        """Record that the controller begins an event."""
        now = self._clock()
        self.waited.add(now - came)
        self._at_work = name, now

    def total(self, *names: str) -> Timer:
        """Return the processing time of events of these classes, or of all events."""
        found = [timer for name, timer in self.worked.items() if not names or name in names]
        return Timer(sum(timer.count for timer in found), sum(timer.total_ms for timer in found))

"""How long events wait for the controller in this process, and how long it works on them."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec


class Timer(msgspec.Struct):
    """How often, and how long in all, since the start."""

    count: int = 0
    total_ms: float = 0.0

    def add(self, seconds: float) -> None:
        """Once more."""
        self.count += 1
        self.total_ms += seconds * 1000


class QueueFigures:
    """Of all terms of this broker as controller. `clock` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.waited = Timer()
        """From an event's coming to its turn."""
        self.worked: dict[str, Timer] = {}
        """From its turn to the next one's: by the name of the event's class."""
        self._at_work: tuple[str, float] | None = None

    def now(self) -> float:
        """To be kept with an event that comes."""
        return self._clock()

    def idle(self) -> None:
        """The controller asks for the next event: the last one is done with."""
        if self._at_work is not None:
            name, since = self._at_work
            self.worked.setdefault(name, Timer()).add(self._clock() - since)
            self._at_work = None

    def begins(self, name: str, came: float) -> None:
        """It has one."""
        now = self._clock()
        self.waited.add(now - came)
        self._at_work = name, now

    def total(self, *names: str) -> Timer:
        """The work on events of these classes, or on all."""
        found = [timer for name, timer in self.worked.items() if not names or name in names]
        return Timer(sum(one.count for one in found), sum(one.total_ms for one in found))

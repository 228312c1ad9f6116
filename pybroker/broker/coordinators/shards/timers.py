"""Timeouts by key: a wheel of slots, and what turns it on the event loop.

Most timeouts are sessions that heartbeats prolong long before they end. Prolonging therefore only writes the new
deadline; the timer stays in its old slot and moves when that slot comes up. So a heartbeat costs one dictionary
lookup.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Hashable

from pybroker.broker.clock import Clock

log = logging.getLogger(__name__)

TICK_MS = 10
"""The wheel's grain: a timeout comes at most this much late."""


class _Timer:
    __slots__ = ("callback", "deadline_ms", "key", "slot")

    def __init__(self, key: Hashable, deadline_ms: int, slot: int, callback: Callable[[], None]) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.slot = slot
        self.callback = callback


class TimerWheel:
    """Timers by key, one each. Time comes from the clock's monotonic side; `advance` runs what is due.

    `on_earlier(ms)` is called with the monotonic time at which `advance` has to run, whenever that moves forward.
    """

    def __init__(self, clock: Clock, on_earlier: Callable[[int], None] | None = None) -> None:
        self._clock = clock
        self._on_earlier = on_earlier
        self._timers: dict[Hashable, _Timer] = {}
        self._slots: dict[int, set[_Timer]] = {}
        self._order: list[int] = []

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, delay_ms: int, callback: Callable[[], None]) -> None:
        """Calls `callback` once, `delay_ms` from now, in place of what was scheduled under `key`.

        Nothing runs in the same `advance` that schedules it: a callback that schedules itself cannot hold the loop.
        """
        timer = self._timers.get(key)
        if timer is None:
            deadline_ms = self._clock.monotonic_ms() + max(delay_ms, 1)
            timer = _Timer(key, deadline_ms, _slot(deadline_ms), callback)
            self._timers[key] = timer
            self._place(timer)
        else:
            timer.callback = callback
            self._move(timer, delay_ms)

    def touch(self, key: Hashable, delay_ms: int) -> bool:
        """Gives an existing timer a new delay from now; False when there is none."""
        timer = self._timers.get(key)
        if timer is None:
            return False
        self._move(timer, delay_ms)
        return True

    def cancel(self, key: Hashable) -> None:
        """Forgets what is scheduled under `key`."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            held = self._slots.get(timer.slot)
            if held is not None:
                held.discard(timer)

    def next_ms(self) -> int | None:
        """When `advance` has to run next; None when nothing is scheduled."""
        return self._order[0] * TICK_MS if self._order else None

    def advance(self) -> None:
        """Runs everything that is due. A callback that raises is a bug: it is logged, and the others run."""
        now_ms = self._clock.monotonic_ms()
        while self._order and self._order[0] * TICK_MS <= now_ms:
            slot = heapq.heappop(self._order)
            due = self._slots.pop(slot)
            while due:
                timer = due.pop()
                if self._timers.get(timer.key) is not timer:
                    continue
                if timer.deadline_ms > now_ms:
                    timer.slot = _slot(timer.deadline_ms)
                    self._place(timer)
                    continue
                del self._timers[timer.key]
                try:
                    timer.callback()
                except Exception:
                    log.exception("the timer %r failed: this is a bug in pybroker", timer.key)

    def _move(self, timer: _Timer, delay_ms: int) -> None:
        timer.deadline_ms = self._clock.monotonic_ms() + max(delay_ms, 1)
        slot = _slot(timer.deadline_ms)
        if slot < timer.slot:
            held = self._slots.get(timer.slot)
            if held is not None:
                held.discard(timer)
            timer.slot = slot
            self._place(timer)

    def _place(self, timer: _Timer) -> None:
        held = self._slots.get(timer.slot)
        if held is not None:
            held.add(timer)
            return
        self._slots[timer.slot] = {timer}
        heapq.heappush(self._order, timer.slot)
        if self._order[0] == timer.slot and self._on_earlier is not None:
            self._on_earlier(timer.slot * TICK_MS)


def _slot(deadline_ms: int) -> int:
    return -(-deadline_ms // TICK_MS)


class WheelDriver:
    """Turns a wheel on an event loop: one loop timer for the next slot, whatever the number of timers."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False
        self.wheel = TimerWheel(clock, self._wake_at)

    def stop(self) -> None:
        """No timer runs any more."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake_at(self, monotonic_ms: int) -> None:
        if self._stopped:
            return
        if self._handle is not None:
            self._handle.cancel()
        delay_ms = max(monotonic_ms - self._clock.monotonic_ms(), 0)
        self._handle = self._loop.call_later(delay_ms / 1000, self._run)

    def _run(self) -> None:
        self._handle = None
        self.wheel.advance()
        upcoming = self.wheel.next_ms()
        # A callback may have scheduled something that set the handle already; the earliest slot decides.
        if upcoming is not None:
            self._wake_at(upcoming)

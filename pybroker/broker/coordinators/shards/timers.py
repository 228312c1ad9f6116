"""Timers by key: a timer wheel, and its driver on the event loop.

Most timers are sessions, which heartbeats extend long before they expire. An extension only stores the new deadline.
The timer stays in its old slot of the wheel, and moves to the new slot when the old slot is due. Therefore a heartbeat
costs only one dictionary lookup.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Hashable

from pybroker.broker.clock import Clock

log = logging.getLogger(__name__)

TICK_MS = 10
"""Resolution of the wheel in milliseconds. A timer fires at most this much after its deadline."""


class _Timer:
    __slots__ = ("callback", "deadline_ms", "key", "slot")

    def __init__(self, key: Hashable, deadline_ms: int, slot: int, callback: Callable[[], None]) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.slot = slot
        self.callback = callback


class TimerWheel:
    """Timers, at most one per key. All times are monotonic; `advance` runs due timers.

    `on_earlier(ms)` is called whenever the next `advance` has to run earlier than planned; `ms` is the new monotonic
    time.
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
        """Call `callback` once, in `delay_ms`; replace the timer of `key`.

        If a callback schedules itself, it runs again in a later `advance`. It therefore cannot block the event loop.
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
        """Set a new delay for an existing timer. Return False if the key has no timer."""
        timer = self._timers.get(key)
        if timer is None:
            return False
        self._move(timer, delay_ms)
        return True

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            held = self._slots.get(timer.slot)
            if held is not None:
                held.discard(timer)

    def next_ms(self) -> int | None:
        """Return the monotonic time at which `advance` has to run next; None if there are no timers."""
        return self._order[0] * TICK_MS if self._order else None

    def advance(self) -> None:
        """Run all due timers. If a callback raises an exception (a bug), log it and run the other timers."""
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
    """Drives a wheel: one asyncio timer calls `advance` when the next slot is due."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False
        self.wheel = TimerWheel(clock, self._wake_at)

    def stop(self) -> None:
        """Stop all timers."""
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
        # A callback may already have scheduled the next call. Keep the call that is due earlier.
        if upcoming is not None:
            self._wake_at(upcoming)

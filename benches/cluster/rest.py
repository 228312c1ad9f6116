"""When a controller and the channels to its brokers have nothing to do any more."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from pybroker.broker.controller.local_port import LocalPort, Submission

LOOK_S = 0.05


class WatchedPort(LocalPort):
    """Knows whether the controller has an event to work on: much of that work is on threads, and sends nothing."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(broker_id)
        self._at_work = False
        self.moved = time.perf_counter()
        """When an event was taken, or done with, last."""

    @property
    def rests(self) -> bool:
        """All events are done with."""
        return not self._at_work and not self.waiting

    async def take(self) -> Submission:
        """The next one: the one before is done with."""
        if self._at_work:
            self._at_work = False
            self.moved = time.perf_counter()
        submission = await super().take()
        self._at_work = True
        self.moved = time.perf_counter()
        return submission


class WatchedChannels(Protocol):
    """To brokers."""

    moved: float
    """When a message was answered last."""

    async def drain(self) -> None:
        """Waits until everything has been answered."""
        ...


async def until_at_rest(port: WatchedPort, channels: WatchedChannels, quiet_s: float) -> float:
    """Until nothing is under way, and nothing has come of it for `quiet_s`; gives when the last thing ended."""
    while True:
        await channels.drain()
        ended = max(port.moved, channels.moved)
        if port.rests and time.perf_counter() - ended >= quiet_s:
            return ended
        await asyncio.sleep(LOOK_S)

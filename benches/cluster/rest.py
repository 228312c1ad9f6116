"""Detects that a controller and its channels to brokers are idle."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from pybroker.broker.controller.local_controller_client import LocalControllerClient, Submission

LOOK_S = 0.05


class WatchedClient(LocalControllerClient):
    """Tracks whether the controller is processing an event: much of its work runs in threads and sends nothing."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(broker_id)
        self._at_work = False
        self.moved = time.perf_counter()
        """When the controller last took an event or finished one."""

    @property
    def rests(self) -> bool:
        """Return whether all events are processed."""
        return not self._at_work and not self.waiting

    async def take(self) -> Submission:
        """Return the next event. The controller has then finished the previous one."""
        if self._at_work:
            self._at_work = False
            self.moved = time.perf_counter()
        submission = await super().take()
        self._at_work = True
        self.moved = time.perf_counter()
        return submission


class WatchedChannels(Protocol):
    """Channels to brokers."""

    moved: float
    """Time of the last response."""

    async def drain(self) -> None:
        """Wait until all messages have a response."""
        ...


async def until_at_rest(client: WatchedClient, channels: WatchedChannels, quiet_s: float) -> float:
    """Wait until nothing is in progress and nothing has happened for `quiet_s`. Return the time of the last
    activity."""
    while True:
        await channels.drain()
        ended = max(client.moved, channels.moved)
        if client.rests and time.perf_counter() - ended >= quiet_s:
            return ended
        await asyncio.sleep(LOOK_S)

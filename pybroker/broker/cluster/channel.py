"""The channel from the controller to one broker. The controller's own broker also has one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pybroker.broker.metadata.control_messages import ControlRequest, ControlResponse
from pybroker.broker.metadata.image import BrokerImage


class Channel(Protocol):
    """The channel to one broker under one broker epoch. Every request gets an answer, even if the broker cannot execute
    it.
    """

    def send(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Queue a request. The broker executes it after it has answered the earlier requests."""
        ...

    def ask(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Send a request immediately, before queued requests, because it must not wait for slow orders."""
        ...

    async def drain(self) -> None:
        """Wait until all requests have been answered."""
        ...


class Channels(Protocol):
    """The channels to live brokers."""

    def to(self, broker: BrokerImage) -> Channel | None:
        """Return the channel to this broker epoch of a broker; None if this process cannot reach it."""
        ...

    def follow(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Keep only channels to these brokers. A request for another broker or another broker epoch then fails with
        STALE_BROKER_EPOCH.
        """
        ...

    async def close(self) -> None:
        """Close the channels after the sent requests have been answered, without a time limit."""
        ...

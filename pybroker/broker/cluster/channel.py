"""The way from the controller to one broker. The controller's own broker has one like any other: no shortcut."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pybroker.broker.metadata.control_messages import ControlRequest, ControlResponse
from pybroker.broker.metadata.image import BrokerImage


class Channel(Protocol):
    """To one life of one broker. Every message is answered; what could not be obeyed, by a response that says so."""

    def send(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Queues an order: it is obeyed when those before it have been answered."""
        ...

    def ask(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Asks at once, beside the queue: for what must not wait for orders that take long."""
        ...

    async def drain(self) -> None:
        """Waits until everything has been answered."""
        ...


class Channels(Protocol):
    """To brokers that live."""

    def to(self, broker: BrokerImage) -> Channel | None:
        """The channel to this life of a broker; None if it cannot be reached from here."""
        ...

    def follow(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Only these live: what was meant for others, or for other lives of these, is refused as stale."""
        ...

    async def close(self) -> None:
        """After what was sent has been answered, for as long as that may take."""
        ...

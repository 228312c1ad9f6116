"""The way from the controller to one broker. The controller's own broker has one like any other: no shortcut."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pybroker.metadata.control_messages import ControlRequest, ControlResponse


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

"""The current controller, as far as this broker knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class ControllerTermView(Protocol):
    """A broker's information about the controller for metrics and other components."""

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change sent to brokers, while this broker is the
        controller."""
        ...

    @property
    def controller(self) -> int | None:
        """The controller's broker id; None if there is none or it is unknown."""
        ...


class Seat:
    """The current controller's id: the election writes it, request forwarding reads it. On the loop's thread."""

    def __init__(self) -> None:
        self._controller: int | None = None
        self._changed = asyncio.Event()
        self._told: list[Callable[[], None]] = []

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever another broker becomes the controller, or the cluster has none."""
        self._told.append(tell)

    @property
    def controller(self) -> int | None:
        """The controller's broker id; None if there is none or it is unknown."""
        return self._controller

    def taken_by(self, broker_id: int | None) -> None:
        """Set the controller that the store names now."""
        if broker_id != self._controller:
            self._controller = broker_id
            self._changed.set()
            self._changed = asyncio.Event()
            for tell in self._told:
                tell()

    async def changes(self) -> None:
        """Wait until another broker becomes the controller, or the cluster has none."""
        await self._changed.wait()

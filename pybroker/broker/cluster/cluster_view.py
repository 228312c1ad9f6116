"""This broker's view of the cluster: its image, and the current controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pybroker.broker.metadata.image import ClusterImage


class ClusterView(Protocol):
    """The read-only view. It follows the controller's messages in order and may lag behind the controller, so the
    controller checks each request against its own state again.
    """

    @property
    def image(self) -> ClusterImage:
        """Return the cluster as far as this broker has received it. The image is immutable, so callers may keep it."""
        ...


class ControllerTermView(Protocol):
    """The current controller, for metrics and for components that submit events."""

    @property
    def changes(self) -> tuple[int, int]:
        """While this broker is the controller: the controller epoch, and the number of the last change sent to brokers.
        """
        ...

    @property
    def controller(self) -> int | None:
        """The controller's broker id; None if there is none or it is unknown."""
        ...


class ControllerLeadership:
    """The current controller's id. The election sets it, and request forwarding reads it. Used on the loop's thread."""

    def __init__(self) -> None:
        self._controller: int | None = None
        self._changed = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever another broker becomes the controller, or the cluster has none."""
        self._callbacks.append(callback)

    @property
    def controller(self) -> int | None:
        """The controller's broker id; None if there is none or it is unknown."""
        return self._controller

    def set_controller(self, broker_id: int | None) -> None:
        """Set the current controller, as the store names it."""
        if broker_id != self._controller:
            self._controller = broker_id
            self._changed.set()
            self._changed = asyncio.Event()
            for callback in self._callbacks:
                callback()

    async def changes(self) -> None:
        """Wait until another broker becomes the controller, or the cluster has none."""
        await self._changed.wait()

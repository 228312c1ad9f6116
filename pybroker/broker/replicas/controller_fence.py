"""The fence for the controller's messages. It admits only messages from the newest controller, and only messages to the
current broker epoch (KIP-380)."""

from __future__ import annotations

import asyncio

from pybroker.protocol.error_codes import ErrorCode


class ControllerFence:
    """The fence that checks all messages of controllers."""

    def __init__(self) -> None:
        self._controller_epoch = -1
        self._broker_epoch = -1
        self._ended_term = -1
        self._changed = asyncio.Event()

    def registered(self, broker_epoch: int) -> None:
        """Begin a new broker epoch."""
        self._broker_epoch = broker_epoch
        self._changed.set()

    def term_ended(self, controller_epoch: int) -> None:
        """Refuse messages of a controller in this process that still wait for the first registration.

        The controller waits for their answers before it ends. If this broker is elected again, it begins the next term
        only after that, and without a controller it cannot register.
        """
        self._ended_term = max(self._ended_term, controller_epoch)
        self._changed.set()

    @property
    def broker_epoch(self) -> int:
        """The current broker epoch; -1 before the first registration."""
        return self._broker_epoch

    async def admit(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Return NONE, or the reason to refuse a message. A sender that does not know this broker's epoch sends -1.

        Wait for the first registration before any message is admitted. A controller that has not noticed the restart
        yet sends pending orders for the earlier broker epoch, and this broker can recognize them only when it has its
        new epoch.
        """
        while self._broker_epoch < 0:
            if controller_epoch <= self._ended_term:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            self._changed.clear()
            await self._changed.wait()
        if controller_epoch < self._controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if broker_epoch != -1 and broker_epoch < self._broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self._controller_epoch = controller_epoch
        return ErrorCode.NONE

"""Whose word counts: that of the newest controller, and only what it says to this life of the broker (KIP-380)."""

from __future__ import annotations

import asyncio

from pybroker.protocol.error_codes import ErrorCode


class Fence:
    """One for all of a controller's messages."""

    def __init__(self) -> None:
        self._controller_epoch = -1
        self._broker_epoch = -1
        self._registered = asyncio.Event()

    def registered(self, broker_epoch: int) -> None:
        """A life of the broker begins."""
        self._broker_epoch = broker_epoch
        self._registered.set()

    @property
    def broker_epoch(self) -> int:
        """Of the present life; -1 before the first registration."""
        return self._broker_epoch

    async def admit(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """NONE, or why a message is refused. A broker epoch of -1 is that of a sender who does not know any.

        Waits for the first registration: a controller that has not seen the end of the life before goes on telling it
        what it owes, and a broker that does not know its own life yet could not tell one from the other."""
        await self._registered.wait()
        if controller_epoch < self._controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if broker_epoch != -1 and broker_epoch < self._broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self._controller_epoch = controller_epoch
        return ErrorCode.NONE

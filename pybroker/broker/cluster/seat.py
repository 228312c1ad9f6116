"""Who is the controller, as far as this broker knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Office(Protocol):
    """What a broker says of the controller to others."""

    @property
    def changes(self) -> tuple[int, int]:
        """The controller epoch, and the number of the last change that brokers were told of, while it is this one."""
        ...

    @property
    def controller(self) -> int | None:
        """The broker's id; None while nobody is, or nobody knows."""
        ...


class Seat:
    """Written by the election, read by who forwards. On the loop's thread."""

    def __init__(self) -> None:
        self._controller: int | None = None
        self._changed = asyncio.Event()
        self._told: list[Callable[[], None]] = []

    def on_change(self, tell: Callable[[], None]) -> None:
        """`tell` is called whenever somebody else is, or nobody."""
        self._told.append(tell)

    @property
    def controller(self) -> int | None:
        """The broker's id; None while nobody is, or nobody knows."""
        return self._controller

    def taken_by(self, broker_id: int | None) -> None:
        """What the store says now."""
        if broker_id != self._controller:
            self._controller = broker_id
            self._changed.set()
            self._changed = asyncio.Event()
            for tell in self._told:
                tell()

    async def changes(self) -> None:
        """Waits until somebody else is, or nobody."""
        await self._changed.wait()

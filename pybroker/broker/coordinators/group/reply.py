"""Results that are available at once or later."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    """A callback for one value. `outcome` returns the value, or a future if it has not arrived."""

    __slots__ = ("_future", "_value")

    def __init__(self) -> None:
        self._value: T | None = None
        self._future: asyncio.Future[T] | None = None

    def __call__(self, value: T) -> None:
        if self._future is None:
            self._value = value
        elif not self._future.done():
            self._future.set_result(value)

    def outcome(self, loop: asyncio.AbstractEventLoop) -> T | asyncio.Future[T]:
        if self._value is not None:
            return self._value
        self._future = loop.create_future()
        return self._future

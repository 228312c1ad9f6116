"""A response that a callback brings. Where nothing but one write is waited for, this is all that it takes: a coroutine
with a future and a task costs as much as the rest of the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Later:
    """Given a response once; who waits for it is told. `value` and `problem` are as an InlineTask's."""

    __slots__ = ("_over", "_told", "abandoned", "problem", "value")

    def __init__(self) -> None:
        self._told: Callable[[Later], None] | None = None
        self._over = False
        self.abandoned = False
        self.value: Any = None
        self.problem: BaseException | None = None

    def give(self, response: object) -> None:
        """The response. What comes after the first one, or after a cancellation, is passed over."""
        self._end(response, None)

    def outcome(self) -> object:
        """What a handler returns: the response if it is there, else this object."""
        return self.value if self._over else self

    def then(self, told: Callable[[Later], None]) -> None:
        """Calls `told` when the response is given, at once if it has been."""
        if self._over:
            told(self)
        else:
            self._told = told

    def cancel(self) -> None:
        """Nobody waits any longer: what is told is CancelledError."""
        self._end(None, asyncio.CancelledError())

    def abandon(self) -> None:
        """Nobody asks for the response any more."""
        self.abandoned = True
        self.cancel()

    def _end(self, value: object, problem: BaseException | None) -> None:
        if self._over:
            return
        self._over = True
        self.value, self.problem = value, problem
        if self._told is not None:
            self._told(self)

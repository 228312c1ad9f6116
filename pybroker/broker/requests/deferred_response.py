"""A response that a callback delivers. A handler that only waits for a single write uses it instead of a coroutine,
because a coroutine with its future and task costs as much as the rest of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class DeferredResponse:
    """A response that is set once and passed to a callback. `value` and `problem` work as in `InlineTask`."""

    __slots__ = ("_callback", "_over", "abandoned", "problem", "value")

    def __init__(self) -> None:
        self._callback: Callable[[DeferredResponse], None] | None = None
        self._over = False
        self.abandoned = False
        self.value: Any = None
        self.problem: BaseException | None = None

    def resolve(self, response: object) -> None:
        """Set the response. Has no effect if it is already set or cancelled."""
        self._end(response, None)

    def outcome(self) -> object:
        """Return the response if it is set, otherwise this object. A handler returns the result of this method."""
        return self.value if self._over else self

    def then(self, callback: Callable[[DeferredResponse], None]) -> None:
        """Call `callback` when the response is set; immediately if it already is."""
        if self._over:
            callback(self)
        else:
            self._callback = callback

    def cancel(self) -> None:
        """Stop waiting. The result becomes a CancelledError."""
        self._end(None, asyncio.CancelledError())

    def abandon(self) -> None:
        """Cancel, and ignore the response if it comes."""
        self.abandoned = True
        self.cancel()

    def _end(self, value: object, problem: BaseException | None) -> None:
        if self._over:
            return
        self._over = True
        self.value, self.problem = value, problem
        if self._callback is not None:
            self._callback(self)

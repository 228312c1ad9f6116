"""A task for a coroutine that runs the first step immediately. asyncio's own Task supports that only from Python 3.12
on.

While a step runs, the object is the loop's current task, as "Extending asyncio" requires. `asyncio.timeout`,
`TaskGroup` and cancellation therefore work inside a handler as in any task.
"""

from __future__ import annotations

import asyncio
from asyncio import tasks
from collections.abc import Callable, Coroutine
from typing import Any


class InlineTask:
    """Drives one coroutine. Calls `done(self)` once when the coroutine has ended; then either `value` or `problem` is
    valid."""

    __slots__ = (
        "__weakref__",
        "_cancels",
        "_coroutine",
        "_done",
        "_loop",
        "_must_cancel",
        "_over",
        "_waits_for",
        "abandoned",
        "problem",
        "value",
    )

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        loop: asyncio.AbstractEventLoop,
        done: Callable[[InlineTask], None],
    ) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._done = done
        self._waits_for: asyncio.Future[Any] | None = None
        self._must_cancel = False
        self._cancels = 0
        self._over = False
        self.abandoned = False
        self.value: Any = None
        self.problem: BaseException | None = None

    def step_inline(self) -> bool:
        """Run the first step; return True if the coroutine has ended."""
        self._step(None)
        return self._over

    def abandon(self) -> None:
        """End the coroutine and ignore its result."""
        self.abandoned = True
        self.cancel()

    # --- asyncio's task interface -------------------------------------------------------------------------------------

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def done(self) -> bool:
        return self._over

    def cancelling(self) -> int:
        return self._cancels

    def uncancel(self) -> int:
        if self._cancels > 0:
            self._cancels -= 1
        return self._cancels

    def cancel(self, msg: object = None) -> bool:
        """Raise CancelledError at the coroutine's current await."""
        del msg
        if self._over:
            return False
        self._cancels += 1
        if self._waits_for is not None and self._waits_for.cancel():
            return True
        self._must_cancel = True
        return True

    # --- steps --------------------------------------------------------------------------------------------------------

    def _wakeup(self, future: asyncio.Future[Any]) -> None:
        self._waits_for = None
        if future.cancelled():
            self._step(asyncio.CancelledError())
        else:
            self._step(future.exception())

    def _step(self, problem: BaseException | None) -> None:
        if self._must_cancel:
            self._must_cancel = False
            if not isinstance(problem, asyncio.CancelledError):
                problem = asyncio.CancelledError()
        current: Any = self
        # A drain runs from a reader callback, where no task is current. But a test may start a handler inside a task;
        # restore that task afterwards.
        outer = asyncio.current_task(self._loop)
        if outer is not None:
            tasks._leave_task(self._loop, outer)
        tasks._enter_task(self._loop, current)
        try:
            awaited = self._coroutine.send(None) if problem is None else self._coroutine.throw(problem)
        except StopIteration as end:
            self._finish(end.value, None)
            return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._finish(None, error)
            return
        finally:
            tasks._leave_task(self._loop, current)
            if outer is not None:
                tasks._enter_task(self._loop, outer)
        if awaited is None:  # asyncio.sleep(0)
            self._loop.call_soon(self._step, None)
            return
        # `await` sets this flag on a future; asyncio's protocol requires the driver to clear it.
        awaited._asyncio_future_blocking = False
        self._waits_for = awaited
        awaited.add_done_callback(self._wakeup)
        if self._must_cancel and awaited.cancel():
            self._must_cancel = False

    def _finish(self, value: Any, problem: BaseException | None) -> None:
        self._over = True
        self.value = value
        self.problem = problem
        self._done(self)

"""A coroutine whose first step runs at once; asyncio's own Task can do this from Python 3.12 on.

It follows "Extending asyncio": while a step runs it is the loop's current task, so `asyncio.timeout`, `TaskGroup` and
cancellation work inside a handler as they do in any task.
"""

from __future__ import annotations

import asyncio
from asyncio import tasks
from collections.abc import Callable, Coroutine
from typing import Any


class InlineTask:
    """Drives one coroutine; calls `done(self)` once, when it has ended. Exactly one of `value` and `problem` counts
    then.
    """

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
        """Runs the first step; True when that was all."""
        self._step(None)
        return self._over

    def abandon(self) -> None:
        """Ends the coroutine without anybody asking for its result."""
        self.abandoned = True
        self.cancel()

    # --- what asyncio expects of a task -------------------------------------------------------------------------------

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
        """Asks the coroutine to end: CancelledError is raised where it waits."""
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
        # The drain runs from a reader callback, where no task is current; a nested start (a handler that is driven from
        # a task, in tests) puts the outer one back.
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
        # A future awaited with `await` says so in this flag; clearing it is the driver's part of the protocol.
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

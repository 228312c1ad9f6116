"""An event loop whose time and order are a function of a seed.

Time jumps to the next timer. The callbacks of one process run in their order, as in asyncio; which process runs next is
drawn. A process that is killed runs no callback any more, not even its `finally` blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

STEP_S = 1e-6
"""Time that one callback takes."""


class StuckError(Exception):
    """Nothing is left to run."""


class Process:
    """What is killed and paused as a whole."""

    def __init__(self, loop: SimulatedLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.dead = False
        self.paused_until = 0.0
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        """Run a coroutine in this process."""
        return self.loop.create_task(work, name=name, context=self.context)

    def later(self, delay_s: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call something in this process after a while."""
        return self.loop.call_later(delay_s, call, *args, context=self.context)


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class SimulatedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class SimulatedFuture(asyncio.Future[Any]):
    """See `SimulatedTask`."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class ReadyQueue:
    """The handles that may run, by process."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._queues: dict[Process | None, deque[asyncio.Handle]] = {}

    def append(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or not process.dead:
            self._queues.setdefault(process, deque()).append(handle)

    def clear(self) -> None:
        self._queues.clear()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def take(self, random: Random) -> asyncio.Handle | None:
        """Return the next handle of some process that is not paused."""
        now = self._loop.time()
        able = [process for process in self._queues if process is None or process.paused_until <= now]
        if not able:
            return None
        process = able[0] if len(able) == 1 else random.choice(able)
        queue = self._queues[process]
        handle = queue.popleft()
        if not queue:
            del self._queues[process]
        return handle

    def next_at(self) -> float | None:
        """Return when the first paused process goes on."""
        return min((process.paused_until for process in self._queues if process is not None), default=None)

    def drop(self, process: Process) -> None:
        self._queues.pop(process, None)


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of one run."""

    _ready: ReadyQueue
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._now = 1_000.0
        self._ready = ReadyQueue(self)
        self.steps = 0
        self.over = False
        self._numbers = 0
        self.tasks: list[SimulatedTask] = []

    def time(self) -> float:
        return self._now

    def kill(self, process: Process) -> None:
        """Run nothing of a process any more."""
        process.dead = True
        self._ready.drop(process)

    def create_future(self) -> SimulatedFuture:
        future = SimulatedFuture(loop=self)
        self._numbers += 1
        future.number = self._numbers
        return future

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> SimulatedTask:
        self._numbers += 1
        task = SimulatedTask.__new__(SimulatedTask)
        task.number = self._numbers
        task.__init__(coro, loop=self, name=name or f"task-{self._numbers}", context=context)  # type: ignore[misc]
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        # A dead process's coroutines must not be collected during the run: that would run their `finally` blocks.
        self.tasks.append(task)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.over:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run the work here, and answer a moment later."""
        del executor
        future = self.create_future()
        try:
            result = func(*args)
        except BaseException as problem:
            self.call_later(self._random.uniform(0, 0.002), _fail, future, problem)
        else:
            self.call_later(self._random.uniform(0, 0.002), _answer, future, result)
        return future

    def _write_to_self(self) -> None:
        pass

    def _run_once(self) -> None:
        due = self._now
        while True:
            while self._scheduled and (self._scheduled[0]._cancelled or self._scheduled[0]._when <= due):  # type: ignore[attr-defined]
                timer = heapq.heappop(self._scheduled)
                timer._scheduled = False  # type: ignore[attr-defined]
                if not timer._cancelled:
                    self._ready.append(timer)
            handle = self._ready.take(self._random)
            if handle is not None:
                break
            times = [timer._when for timer in self._scheduled[:1]]  # type: ignore[attr-defined]
            paused = self._ready.next_at()
            if paused is not None:
                times.append(paused)
            if not times:
                raise StuckError
            due = self._now = max(self._now, min(times))
        self._now += STEP_S
        if not handle._cancelled:
            self.steps += 1
            handle._run()

    def end(self) -> None:
        """Let nothing run any more, and forget all coroutines."""
        self.over = True
        self._ready.clear()
        self._scheduled.clear()
        asyncio.events._set_running_loop(self)
        try:
            for task in self.tasks:
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        finally:
            asyncio.events._set_running_loop(None)
        self.tasks.clear()
        self.close()


def _answer(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], problem: BaseException) -> None:
    if not future.done():
        future.set_exception(problem)

"""The port of the broker that is the controller: a queue in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.port import Answer, Asked
from pybroker.broker.cluster.queue_figures import QueueFigures
from pybroker.broker.controller.closing import ClosedTopics
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

DECISION_MS_MIN = 1_000
"""Who gives less time wants to wait for nothing; a decision takes a moment all the same."""
EVENTS_QUEUED_MAX = 10_000
"""Events that wait for their turn. Clients wait for their own answers, so this many means that something is wrong."""

R = TypeVar("R")


class Submission(msgspec.Struct, eq=False):
    """An event on its way to its answer."""

    event: Event[Any]
    asked_by: int
    """The broker that waits for the answer, and whose view shows the change by then."""
    deadline: float | None
    """Until when it is waited for the decision to be in force, by the loop's clock."""
    decide_by: float | None
    """Nobody waits for a decision that has not begun by then."""
    answered: asyncio.Future[Answer[Any]]
    came: float
    """By the clock of the figures."""
    asked: Asked | None = None
    """With it the outcome is kept, under this request id."""
    caller: Caller | None = None
    """The client that wants it, whose rights count; None: a broker does."""
    closed: ClosedTopics | None = None
    """What was closed for its decision; until then it may have to wait."""
    over_quota: Mapping[int, KafkaError] | None = None
    """Items of the event that are refused by the client's quota, by their places; None: nothing was counted yet."""
    throttle_time_ms: int = 0
    """How long the client has to wait."""

    def require_time(self) -> None:
        """Raises KafkaError REQUEST_TIMED_OUT."""
        if self.decide_by is not None and asyncio.get_running_loop().time() >= self.decide_by:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The controller did not come to it in time; nothing was changed."
            )

    def answer(self, answer: Answer[Any]) -> None:
        """Unless who asked has gone."""
        if not self.answered.done():
            self.answered.set_result(answer)

    def fail(self, error: KafkaError) -> None:
        """As `answer`."""
        if not self.answered.done():
            self.answered.set_exception(error)


class LocalPort:
    """`cluster.port.OwnPort`; the controller takes from the other end."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._queue: asyncio.Queue[Submission] = asyncio.Queue()
        self._open = False
        self.figures = QueueFigures()
        self._under_way: dict[Uuid, asyncio.Future[Answer[Any]]] = {}

    @property
    def waiting(self) -> int:
        """Events that nobody has taken."""
        return self._queue.qsize()

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """See `ControllerPort`. Of a broker that is alone: what is answered is shown."""

    async def submit(
        self,
        event: Event[R],
        timeout_ms: int | None = None,
        *,
        caller: Caller | None = None,
        asked_by: int | None = None,
        asked: Asked | None = None,
    ) -> Answer[R]:
        """See `OwnPort`."""
        again = None if asked is None else self._under_way.get(asked.request_id)
        if again is not None:
            return await asyncio.shield(again)
        if not self._open:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")
        if self._queue.qsize() >= EVENTS_QUEUED_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{EVENTS_QUEUED_MAX} changes of the metadata wait already."
            )
        answered = self._put(event, self._broker_id if asked_by is None else asked_by, timeout_ms, asked, caller)
        if asked is None:
            return await answered
        request_id = asked.request_id
        self._under_way[request_id] = answered
        answered.add_done_callback(lambda done: self._answered(request_id, done))
        # Who asks again may wait for it after who asked first has gone.
        return await asyncio.shield(answered)

    def _put(
        self,
        event: Event[R],
        asked_by: int,
        timeout_ms: int | None = None,
        asked: Asked | None = None,
        caller: Caller | None = None,
    ) -> asyncio.Future[Answer[R]]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer[R]] = loop.create_future()
        deadline, decide_by = None, None
        if timeout_ms is not None:
            deadline = loop.time() + timeout_ms / 1000
            decide_by = loop.time() + max(timeout_ms, DECISION_MS_MIN) / 1000
        came = self.figures.now()
        self._queue.put_nowait(Submission(event, asked_by, deadline, decide_by, answered, came, asked, caller))
        return answered

    def _answered(self, request_id: Uuid, done: asyncio.Future[Answer[Any]]) -> None:
        del self._under_way[request_id]
        if not done.cancelled():
            done.exception()  # perhaps nobody waits any more

    # --- the controller's end -----------------------------------------------------------------------------------------

    def open(self, first: Event[R] | None) -> asyncio.Future[Answer[R]] | None:
        """Somebody takes events from now on, this one before any other; gives what becomes of it."""
        self._open = True
        return None if first is None else self._put(first, self._broker_id)

    def close(self) -> None:
        """Nobody does any more."""
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether events are taken."""
        return self._open

    async def take(self) -> Submission:
        """The next one."""
        self.figures.idle()
        submission = await self._queue.get()
        self.figures.begins(type(submission.event).__name__, submission.came)
        return submission

    def put_back(self, submission: Submission) -> None:
        """One that was taken, and had to wait for something; behind what has come since."""
        self._queue.put_nowait(submission)

    def left(self) -> list[Submission]:
        """All that nobody took."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

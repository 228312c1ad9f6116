"""The controller client of the broker that is the controller: a queue in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from pybroker.broker.cluster.controller_client import EventAnswer, RequestIdentity
from pybroker.broker.cluster.events import Event
from pybroker.broker.cluster.queue_metrics import QueueFigures
from pybroker.broker.cluster.quorum_events import BrokerHeartbeat
from pybroker.broker.controller.write_fence import ClosedTopics
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

DECISION_MS_MIN = 1_000
"""Shortest time limit for a decision. A caller with a shorter timeout does not wait until the change is applied
everywhere, but even the decision takes a moment."""
EVENTS_QUEUED_MAX = 10_000
"""Length limit of the queue. A longer queue indicates a fault, because each client waits for its answer before it
submits more.
"""

R = TypeVar("R")


class Submission(msgspec.Struct, eq=False):
    """A queued event, its deadlines and the future of its answer."""

    event: Event[Any]
    asked_by: int
    """The broker that waits for the answer. It gets the answer only after its own metadata shows the change."""
    deadline: float | None
    """Loop time at which the wait for the brokers to apply the decision ends; None: no limit."""
    decide_by: float | None
    """Loop time after which the decision may no longer begin."""
    answered: asyncio.Future[EventAnswer[Any]]
    came: float
    """Arrival time, by the clock of the queue metrics."""
    asked: RequestIdentity | None = None
    """Request id under which the outcome is recorded; None: the outcome is not recorded."""
    caller: Caller | None = None
    """The client that submits the event, for the authorization; None if a broker submits it."""
    closed: ClosedTopics | None = None
    """The topics that are fenced for the decision; None: no topic is fenced yet."""
    over_quota: Mapping[int, KafkaError] | None = None
    """Items that the client's quota refuses, by index; None until the quota has been checked."""
    throttle_time_ms: int = 0
    """Throttle time for the client's quota."""

    def require_time(self) -> None:
        """Raise KafkaError REQUEST_TIMED_OUT if the decision can no longer begin in time."""
        if self.decide_by is not None and asyncio.get_running_loop().time() >= self.decide_by:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "The controller did not process the request in time. Nothing was changed. Try again.",
            )

    def answer(self, answer: EventAnswer[Any]) -> None:
        """Set the future's result, unless the caller has cancelled it."""
        if not self.answered.done():
            self.answered.set_result(answer)

    def fail(self, error: KafkaError) -> None:
        """Set the future's exception, unless the caller has cancelled it."""
        if not self.answered.done():
            self.answered.set_exception(error)


class LocalControllerClient:
    """The controller client in the controller's own process (`cluster.controller_client.InProcessControllerClient`),
    and the queue from which the controller takes the events."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._queue: asyncio.Queue[Submission] = asyncio.Queue()
        self._open = False
        self._refusal: KafkaError | None = None
        """The error for queued events after the controller has stopped taking them."""
        self.figures = QueueFigures()
        self.heartbeats: Callable[[BrokerHeartbeat], None] | None = None
        """Processes heartbeats immediately, because they must not wait behind decisions. Raises KafkaError."""
        self._under_way: dict[Uuid, asyncio.Future[EventAnswer[Any]]] = {}

    @property
    def waiting(self) -> int:
        """Number of events in the queue."""
        return self._queue.qsize()

    async def catch_up(self, timeout_ms: int | None = None) -> None:
        """Return immediately: on a single broker, metadata always shows a change before the submitter gets the answer.
        """

    async def submit(
        self,
        event: Event[R],
        timeout_ms: int | None = None,
        *,
        caller: Caller | None = None,
        asked_by: int | None = None,
        asked: RequestIdentity | None = None,
    ) -> EventAnswer[R]:
        """Submit an event and return its answer (see `InProcessControllerClient`). A retry with the same request id
        gets the first submission's answer."""
        again = None if asked is None else self._under_way.get(asked.request_id)
        if again is not None:
            return await asyncio.shield(again)
        if not self._open:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")
        if isinstance(event, BrokerHeartbeat) and self.heartbeats is not None:
            self.heartbeats(event)
            return EventAnswer(None, True)  # type: ignore[arg-type]  # a heartbeat's reply is None
        if self._queue.qsize() >= EVENTS_QUEUED_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{EVENTS_QUEUED_MAX} metadata changes are queued already. Try again later.",
            )
        answered = self._put(event, self._broker_id if asked_by is None else asked_by, timeout_ms, asked, caller)
        if asked is None:
            return await answered
        request_id = asked.request_id
        self._under_way[request_id] = answered
        answered.add_done_callback(lambda done: self._answered(request_id, done))
        # A cancelled caller must not cancel the submission: a retry may still wait for the answer.
        return await asyncio.shield(answered)

    def _put(
        self,
        event: Event[R],
        asked_by: int,
        timeout_ms: int | None = None,
        asked: RequestIdentity | None = None,
        caller: Caller | None = None,
    ) -> asyncio.Future[EventAnswer[R]]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[EventAnswer[R]] = loop.create_future()
        deadline, decide_by = None, None
        if timeout_ms is not None:
            deadline = loop.time() + timeout_ms / 1000
            decide_by = loop.time() + max(timeout_ms, DECISION_MS_MIN) / 1000
        came = self.figures.now()
        self._queue.put_nowait(Submission(event, asked_by, deadline, decide_by, answered, came, asked, caller))
        return answered

    def _answered(self, request_id: Uuid, done: asyncio.Future[EventAnswer[Any]]) -> None:
        del self._under_way[request_id]
        if not done.cancelled():
            done.exception()  # Retrieve the exception; else asyncio warns about it if no caller waits any more.

    # --- for the controller -----------------------------------------------------------------------------------------

    def open(self, first: Event[R] | None) -> asyncio.Future[EventAnswer[R]] | None:
        """Start to accept events, and put `first` before all others. Return the future of the answer to `first`."""
        self._open = True
        self._refusal = None
        return None if first is None else self._put(first, self._broker_id)

    def close(self) -> None:
        """Stop accepting events."""
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether the controller accepts events."""
        return self._open

    async def take(self) -> Submission:
        """Wait for the next event and return it."""
        self.figures.idle()
        submission = await self._queue.get()
        self.figures.begins(type(submission.event).__name__, submission.came)
        return submission

    def put_back(self, submission: Submission) -> None:
        """Return a submission to the end of the queue, because it has to wait for something."""
        if self._refusal is not None:
            submission.fail(self._refusal)
            return
        self._queue.put_nowait(submission)

    def refuse_queued(self, error: KafkaError) -> None:
        """Fail all queued submissions. Until `open`, also fail submissions that the controller puts back."""
        self._refusal = error
        while not self._queue.empty():
            self._queue.get_nowait().fail(error)

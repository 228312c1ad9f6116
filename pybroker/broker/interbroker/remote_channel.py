"""The channel to a broker in another process. It has one connection for orders and one for questions."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from pybroker.broker.cluster.value_codec import UnreadableError
from pybroker.broker.interbroker.by_name import LAST_BY_NAME, by_id, named
from pybroker.broker.interbroker.control_wire import request_to_wire, response_from_wire, sendable
from pybroker.broker.interbroker.interbroker_connection import UNREACHABLE, InterBrokerConnection
from pybroker.broker.metadata.control_messages import ControlRequest, ControlResponse, refusal
from pybroker.native import CodecError
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

PAUSE_S = 0.05
PAUSE_MAX_S = 1.0
ANSWER_SECONDS_MAX = 60.0
"""Seconds without an answer after which the channel sends an order again. An order for 10,000 partitions takes seconds.
"""

OpenConnection = Callable[[], Awaitable[InterBrokerConnection]]


class RemoteChannel:
    """A `channel.Channel`. Until `close`, it retries orders that were not delivered, because a registered broker may
    become reachable at any moment."""

    def __init__(
        self, broker_id: int, open_connection: OpenConnection, turn: asyncio.Lock, topic_ids: Callable[[], bool]
    ) -> None:
        """`topic_ids` returns whether this broker sends topic ids to brokers that support them.

        The channels to all brokers share `turn`. It separates the encoding of messages for a hundred brokers by pauses,
        in which other tasks run.
        """
        self._broker_id = broker_id
        self._open_connection = open_connection
        self._turn = turn
        self._topic_ids = topic_ids
        self._queue: deque[tuple[ControlRequest, asyncio.Future[ControlResponse]]] = deque()
        self._orders: InterBrokerConnection | None = None
        self._worker: asyncio.Task[None] | None = None
        self._questions: InterBrokerConnection | None = None
        self._asked: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def send(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Queue an order."""
        answer: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        if self._closed:
            answer.set_result(refusal(request, ErrorCode.STALE_BROKER_EPOCH))
            return answer
        self._queue.append((request, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._deliver(), name=f"controller-channel-{self._broker_id}")
        return answer

    def ask(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Send a question immediately, and only once, because its answer is useless after its timeout."""
        answer: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._ask(request, answer), name=f"controller-question-{self._broker_id}")
        self._asked[task] = None
        task.add_done_callback(lambda task: self._asked.pop(task, None))
        return answer

    async def drain(self) -> None:
        """Wait until all requests have been answered."""
        while (self._worker is not None and not self._worker.done()) or self._asked:
            await asyncio.wait([*([] if self._worker is None else [self._worker]), *self._asked])

    def close(self) -> None:
        """Close the channel. This broker epoch has ended, and its orders fail as stale."""
        self._closed = True
        for connection in (self._orders, self._questions):
            if connection is not None:
                connection.abort()
        if self._worker is not None:
            self._worker.cancel()
        for task in self._asked:
            task.cancel()
        while self._queue:
            request, answer = self._queue.popleft()
            if not answer.done():
                answer.set_result(refusal(request, ErrorCode.STALE_BROKER_EPOCH))

    async def _deliver(self) -> None:
        pause = PAUSE_S
        while self._queue:
            request, answer = self._queue[0]
            try:
                if self._orders is None or not self._orders.is_open:
                    self._orders = await self._open_connection()
                response = await self._ordered(self._orders, request)
            except UNREACHABLE as problem:
                log.debug(
                    "retrying a control request broker=%d request=%s: %s",
                    self._broker_id,
                    type(request).__name__,
                    problem,
                )
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_S)
                continue
            except (CodecError, UnreadableError) as problem:
                log.error(
                    "cannot send a control request broker=%d request=%s: %s",
                    self._broker_id,
                    type(request).__name__,
                    problem,
                )
                response = refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)
            pause = PAUSE_S
            self._queue.popleft()
            if not answer.done():
                answer.set_result(response)

    async def _ordered(self, connection: InterBrokerConnection, request: ControlRequest) -> ControlResponse:
        version = await self._version(connection, request)
        says_names = version == LAST_BY_NAME.get(type(request), -1)
        await connection.drain()
        async with self._turn:
            message = await sendable(named(request) if says_names else request)
            answer = connection.start(message, version)
            await asyncio.sleep(0)
        response = await connection.answer_to(message, answer, timeout_s=ANSWER_SECONDS_MAX)
        return response_from_wire(request, by_id(request, response) if says_names else response)

    async def _version(self, connection: InterBrokerConnection, request: ControlRequest) -> int | None:
        """Return the version to use if the message must contain topic names; None for the newest version that both
        brokers support."""
        last = LAST_BY_NAME.get(type(request))
        if last is None:
            return None
        if not self._topic_ids():
            return last
        if not connection.supports(type(request), last + 1):
            # The broker did not support ids at the last check. This may have changed.
            await connection.learn_versions()
        return last + 1 if connection.supports(type(request), last + 1) else last

    async def _ask(self, request: ControlRequest, answer: asyncio.Future[ControlResponse]) -> None:
        response = refusal(request, ErrorCode.NETWORK_EXCEPTION)
        try:
            if self._questions is None or not self._questions.is_open:
                self._questions = await self._open_connection()
            response = response_from_wire(request, await self._questions.request(request_to_wire(request)))
        except UNREACHABLE as problem:
            log.debug(
                "broker does not answer a control request broker=%d request=%s: %s",
                self._broker_id,
                type(request).__name__,
                problem,
            )
        finally:
            if not answer.done():
                answer.set_result(response)

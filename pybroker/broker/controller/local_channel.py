"""The control channel from the controller to the broker in the same process. It passes messages as objects, without
serialization."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from pybroker.broker.cluster.channel import Channel
from pybroker.broker.metadata.control_messages import ControlRequest, ControlResponse, refusal
from pybroker.broker.metadata.image import BrokerImage
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

Receiver = Callable[[ControlRequest], Awaitable[ControlResponse]]


class LocalChannel:
    """The channel to the local broker (`cluster.channel.Channel`). If its handler raises an exception (a bug), the
    response is UNKNOWN_SERVER_ERROR."""

    def __init__(self, receiver: Receiver, term_ended: Callable[[int], None]) -> None:
        """`term_ended` is called with the controller epoch when the controller ends: the receiver then refuses the
        requests that it has not admitted."""
        self._receiver = receiver
        self._term_ended = term_ended
        self._controller_epoch = -1
        self._queue: deque[tuple[ControlRequest, asyncio.Future[ControlResponse]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._asked: set[asyncio.Task[ControlResponse]] = set()

    def send(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Queue a control request."""
        self._controller_epoch = request.controller_epoch
        future: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        self._queue.append((request, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="controller-channel")
        return future

    def ask(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Send a request immediately, before queued requests."""
        self._controller_epoch = request.controller_epoch
        task = asyncio.create_task(self._answer(request), name="controller-question")
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return task

    async def drain(self) -> None:
        """Wait until all requests have been answered; the controller ends."""
        self._term_ended(self._controller_epoch)
        while (self._task is not None and not self._task.done()) or self._asked:
            await asyncio.wait([*([] if self._task is None else [self._task]), *self._asked])

    async def _run(self) -> None:
        while self._queue:
            request, future = self._queue.popleft()
            response = await self._answer(request)
            if not future.done():
                future.set_result(response)

    async def _answer(self, request: ControlRequest) -> ControlResponse:
        try:
            return await self._receiver(request)
        except Exception:  # The controller waits for a response, and the queue behind this request must continue.
            log.exception(
                "control request failed in the local broker request=%s: this is a bug in pybroker",
                type(request).__name__,
            )
            return refusal(request, int(ErrorCode.UNKNOWN_SERVER_ERROR))


class LocalOnly:
    """`Channels` of a controller whose broker is the only one."""

    def __init__(self, broker_id: int, local: LocalChannel) -> None:
        self._broker_id = broker_id
        self._local = local

    def to(self, broker: BrokerImage) -> Channel | None:
        """Return the channel to the local broker; None for another broker."""
        return self._local if broker.broker_id == self._broker_id else None

    def follow(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Do nothing: there are no other brokers."""

    async def close(self) -> None:
        """Wait for the local broker's responses."""
        await self._local.drain()

"""The ordered way from the controller to one broker. The controller's own broker has one like any other: no
shortcut."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from pybroker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateConfigsResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

Receiver = Callable[[ControlRequest], Awaitable[ControlResponse]]


class LocalChannel:
    """Hands messages to the handlers of this process as objects (R15), one at a time, in order."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._queue: deque[tuple[ControlRequest, asyncio.Future[ControlResponse]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def send(self, request: ControlRequest) -> asyncio.Future[ControlResponse]:
        """Queues a message; the future gives its response. A receiver that fails (a bug) answers
        UNKNOWN_SERVER_ERROR."""
        future: asyncio.Future[ControlResponse] = asyncio.get_running_loop().create_future()
        self._queue.append((request, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="controller-channel")
        return future

    async def drain(self) -> None:
        """Waits until everything that was sent has been answered."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._queue:
            request, future = self._queue.popleft()
            try:
                response = await self._receiver(request)
            except Exception:
                log.exception("%s failed in the local broker: this is a bug in pybroker", type(request).__name__)
                response = _failed(request)
            if not future.done():
                future.set_result(response)


def _failed(request: ControlRequest) -> ControlResponse:
    code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(request, LeaderAndIsrRequest):
        return LeaderAndIsrResponse(code)
    if isinstance(request, StopReplicaRequest):
        return StopReplicaResponse(code)
    if isinstance(request, RestoreReplicasRequest):
        return RestoreReplicasResponse(code)
    if isinstance(request, UpdateMetadataRequest):
        return UpdateMetadataResponse(code)
    return UpdateConfigsResponse(code)

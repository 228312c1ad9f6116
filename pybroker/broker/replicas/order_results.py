"""Reports the results of orders to the controller of a metadata quorum. The controller needs reports because it does
not send the orders itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from pybroker.broker.cluster.controller_client import ControllerClient, submit_until_accepted
from pybroker.broker.cluster.events import Event, LogEndsTold, ReplicasOffline
from pybroker.broker.cluster.quorum_events import ReplicasRestored, ReplicasStopped
from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from pybroker.broker.metadata.znodes import MISSING_LOG
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

RETRY_S = 1.0
STALE = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.INVALID_REQUEST)
"""Errors after which the report is dropped: it is obsolete, or the controller will never accept it."""


class ReplicaReports:
    """The reports of one broker; used on the loop's thread."""

    def __init__(self, controller: ControllerClient, broker_id: int) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, order: ControlRequest, response: ControlResponse) -> bool:
        """Report the results that the controller needs. Return whether an order has failed and must be repeated."""
        match order, response:
            case LeaderAndIsrRequest(), LeaderAndIsrResponse():
                self._applied(order, response)
                return False
            case StopReplicaRequest(), StopReplicaResponse():
                self._report(ReplicasStopped(self._broker_id, order, response))
            case RestoreReplicasRequest(), RestoreReplicasResponse():
                self._report(ReplicasRestored(self._broker_id, order, response))
            case _:
                if response.error_code:
                    log.error("%s failed: %s", type(order).__name__, error_name(response.error_code))
                return False
        return bool(response.error_code) or any(
            partition.error_code for topic in response.topics for partition in topic.partition_errors
        )

    async def stop(self) -> None:
        """Stop reporting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _applied(self, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> None:
        failed: list[tuple[Uuid, int]] = []
        missing: list[tuple[Uuid, int, int, int]] = []
        for topic in response.topics:
            for partition in topic.partition_errors:
                if partition.error_code == ErrorCode.LOG_DIR_NOT_FOUND:
                    missing.append((topic.topic_id, partition.partition_index, -1, MISSING_LOG))
                elif partition.error_code:
                    failed.append((topic.topic_id, partition.partition_index))
        if failed:
            self._report(ReplicasOffline(self._broker_id, tuple(failed), request.broker_epoch))
        if missing:
            self._report(LogEndsTold(self._broker_id, request.broker_epoch, tuple(missing)))

    def _report(self, event: Event[Any]) -> None:
        task = asyncio.create_task(self._submit(event), name=type(event).__name__)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _submit(self, event: Event[Any]) -> None:
        def retrying(error: KafkaError) -> None:
            if error.code in STALE:
                raise error
            log.info("cannot report to the controller yet, retrying event=%s: %s", type(event).__name__, error)

        with contextlib.suppress(KafkaError):
            await submit_until_accepted(self._controller, event, RETRY_S, retrying)

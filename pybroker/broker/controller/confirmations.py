"""Handles the brokers' responses to control requests. A response can cause an event, another request, or a log line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from pybroker.broker.cluster.events import Event, LogEndsTold, ReplicasOffline
from pybroker.broker.controller.deletion_tracker import Deletions
from pybroker.broker.controller.internal_events import FinishMigrations
from pybroker.broker.controller.migration_decisions import Migrations
from pybroker.broker.controller.pending_removals import PendingRemovals
from pybroker.broker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateClusterResponse,
)
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.znodes import MISSING_LOG
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)


class ConfirmationListeners(NamedTuple):
    """The components that process the brokers' responses."""

    migrations: Migrations
    deletions: Deletions
    pending_removals: PendingRemovals


class Confirmations:
    """Passes the brokers' responses to the components of one controller; on the event loop's thread."""

    def __init__(
        self,
        followers: ConfirmationListeners,
        image: Callable[[], ClusterImage],
        report: Callable[[Event[Any]], None],
        tell_everything: Callable[[int], None],
    ) -> None:
        """`report` queues an event. `tell_everything` sends the whole image to a broker."""
        self._migrations, self._deletions, self._pending_removals = followers
        self._image = image
        self._report = report
        self._tell_everything = tell_everything

    def answered(self, broker_id: int, request: ControlRequest, response: ControlResponse) -> None:
        if isinstance(response, UpdateClusterResponse) and response.error_code == ErrorCode.INVALID_UPDATE_VERSION:
            log.warning("broker missed a metadata change, sending the whole metadata image broker=%d", broker_id)
            self._tell_everything(broker_id)
            return
        if response.error_code:
            # The request was for an earlier broker epoch. It is obsolete; do not repeat it.
            level = logging.INFO if response.error_code == ErrorCode.STALE_BROKER_EPOCH else logging.ERROR
            reason = error_name(response.error_code)
            log.log(
                level,
                "broker answered a control request with an error broker=%d request=%s error=%s",
                broker_id,
                type(request).__name__,
                reason,
            )
        if isinstance(response, LeaderAndIsrResponse) and isinstance(request, LeaderAndIsrRequest):
            self._applied(broker_id, request, response)
        elif isinstance(response, StopReplicaResponse) and isinstance(request, StopReplicaRequest):
            self._deletions.stopped(broker_id, request, response)
            self._pending_removals.handle_answer(broker_id, request, response)
        elif isinstance(response, RestoreReplicasResponse) and isinstance(request, RestoreReplicasRequest):
            self._deletions.restored(broker_id, request, response)

    def _applied(self, broker_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> None:
        problems = [
            (topic.topic_id, partition.partition_index, partition.error_code)
            for topic in response.topics
            for partition in topic.partition_errors
            if partition.error_code
        ]
        failed = tuple((topic_id, index) for topic_id, index, code in problems if code != ErrorCode.LOG_DIR_NOT_FOUND)
        if failed:
            self._report(ReplicasOffline(broker_id, failed))
        missing = tuple(
            (topic_id, index, -1, MISSING_LOG)
            for topic_id, index, code in problems
            if code == ErrorCode.LOG_DIR_NOT_FOUND
        )
        if missing:
            self._report(LogEndsTold(broker_id, request.broker_epoch, missing))
        finished = self._migrations.confirmed(broker_id, request, response)
        # If the topics' znodes contain no ids, keep the migration records: they are the only stored copies of the ids.
        if finished and self._image().topic_ids:
            self._report(FinishMigrations(finished))

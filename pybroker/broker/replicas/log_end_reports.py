"""Reports the log ends of local replicas that may have lost records and have no leader to copy from. The controller
elects the replica with the longest log."""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import LogEndsTold
from pybroker.broker.metadata.image import NO_LEADER
from pybroker.broker.metadata.znodes import UNKNOWN_END
from pybroker.broker.replicas.controller_notifier import ControllerNotifier, Partition
from pybroker.native import NativePartitions, Uuid

BATCH_MAX = 10_000


class LogEndReports:
    """The log-end reports of a broker in a cluster; used on the loop's thread."""

    def __init__(
        self, partitions: NativePartitions, view: ClusterView, controller: ControllerClient, broker_id: int
    ) -> None:
        self._partitions = partitions
        self._view = view
        self._broker_id = broker_id
        self._broker_epoch = -1
        self._telling = ControllerNotifier(
            controller, self._event, refused="the controller refused the report of log ends", batch_max=BATCH_MAX
        )

    def without_leader(self, broker_epoch: int, partitions: Iterable[Partition]) -> None:
        """Report these local partitions, for which an order in this broker epoch names no leader."""
        self._broker_epoch = broker_epoch
        self._telling.report(partitions)

    async def stop(self) -> None:
        """Stop reporting."""
        await self._telling.stop()

    def _event(self, batch: tuple[Partition, ...]) -> LogEndsTold | None:
        ends = tuple(end for record in batch if (end := self._asked_for(*record)) is not None)
        return LogEndsTold(self._broker_id, self._broker_epoch, ends) if ends else None

    def _asked_for(self, topic_id: Uuid, index: int) -> tuple[Uuid, int, int, int] | None:
        """Return the log end to report; None if the controller does not need a report."""
        topic = self._view.image.topic_by_id(topic_id)
        state = None if topic is None or index >= len(topic.partitions) else topic.partitions[index]
        if state is None or state.leader != NO_LEADER:
            return None
        if not any(log_end.broker_id == self._broker_id and log_end.end == UNKNOWN_END for log_end in state.suspect):
            return None
        offsets = self._partitions.offsets(topic_id, index)
        return None if offsets is None else (topic_id, index, offsets.last_epoch, offsets.log_end_offset)

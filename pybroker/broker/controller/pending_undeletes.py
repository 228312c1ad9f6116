"""Undeletes that wait for their replicas: they track which replicas have their data back, and when the topic can be
live again.

Only a replica that was in sync at the deletion may become leader: only such a replica is sure to have every record.
When all live brokers have responded, the topic becomes live if each partition has such a replica; the other replicas
copy its log. If all replicas that were in sync are down, the undelete waits for them: any other leader would lose
records without a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybroker.broker.controller.internal_events import FinishUndelete
from pybroker.broker.metadata.control_messages import RestoreReplicasRequest, RestoreReplicasResponse
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.metadata.image import ClusterImage
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name


class _Restore:
    def __init__(self, record: DeletionRecord) -> None:
        self.waiting = record.brokers
        """Brokers that have not responded."""
        self.holders: dict[int, list[int]] = {index: [] for index in record.partitions}
        """Brokers that have the data back, by partition."""
        self.codes: set[int] = set()
        """Error codes of the brokers that could not restore the data."""


class PendingUndeletes:
    """The running undeletes of one controller, on the event loop's thread."""

    def __init__(self) -> None:
        self._restores: dict[Uuid, _Restore] = {}

    def begin(self, record: DeletionRecord) -> None:
        """Begin an undelete that was just decided, or that a new controller has loaded. If the undelete is already
        running, remove the brokers that have been unregistered since from its wait."""
        known = self._restores.get(record.topic_id)
        if known is None:
            self._restores[record.topic_id] = _Restore(record)
        else:
            known.waiting &= record.brokers

    def drop(self, topic_id: Uuid) -> None:
        """Forget an undelete that has ended."""
        self._restores.pop(topic_id, None)

    def pending_of(self, broker_id: int) -> list[Uuid]:
        """Return the topics for which a broker has not responded."""
        return [topic_id for topic_id, restore in self._restores.items() if broker_id in restore.waiting]

    def handle_answer(self, broker_id: int, request: RestoreReplicasRequest, response: RestoreReplicasResponse) -> bool:
        """Record a response and return whether it changes anything. Ignore a response for an earlier broker epoch: the
        broker gets the request again in its new epoch."""
        if response.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH):
            return False
        failed = {
            (topic.topic_id, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partition_errors
            if partition.error_code
        }
        changed = False
        for topic in request.topic_states:
            restore = self._restores.get(topic.topic_id)
            if restore is None or broker_id not in restore.waiting:
                continue
            changed = True
            restore.waiting.discard(broker_id)
            for index in topic.partitions:
                code = response.error_code or failed.get((topic.topic_id, index), 0)
                if code:
                    restore.codes.add(code)
                elif index in restore.holders:
                    restore.holders[index].append(broker_id)
        return changed

    def ready(self, image: ClusterImage) -> list[FinishUndelete]:
        """Return the undeletes that can end now: the topic can become live, or cannot be restored."""
        found = []
        for topic_id, restore in self._restores.items():
            record = image.deletions.get(topic_id)
            if record is not None and not restore.waiting & image.brokers.keys():
                outcome = _outcome(record, restore)
                if outcome is not None:
                    found.append(outcome)
        return found


def _outcome(record: DeletionRecord, restore: _Restore) -> FinishUndelete | None:
    holders: Mapping[int, tuple[int, ...]] = {index: tuple(found) for index, found in restore.holders.items()}
    lacking = [index for index in record.partitions if not set(record.in_sync(index)) & set(holders[index])]
    if not lacking:
        return FinishUndelete(record.topic_id, None, holders)
    if any(set(record.in_sync(index)) & restore.waiting for index in lacking):
        return None
    names = ", ".join(sorted(map(error_name, restore.codes)))
    return FinishUndelete(
        record.topic_id, f"no replica that was in sync still has the data of partition {lacking[0]} ({names})"
    )

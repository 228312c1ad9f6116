"""Deletion records in NoOpRecord: a head, and the large fields in pieces.

The large fields change rarely. If they have not changed, the head refers to their values in the previous image.
Otherwise pieces follow the head, in the same NoOpRecord or in later NoOpRecords of the same delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pybroker.broker.metadata.deletion_records import BULK, DeletionRecord, TransactionOutcome
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.frames import UnreadableRecordError
from pybroker.broker.metadata.records.own_facts import (
    ELEMENTS_MAX,
    OwnFacts,
    lineage_from,
    lineage_of,
    pieces,
    settings_from,
    settings_of,
)
from pybroker.native import Uuid
from pybroker.protocol import messages as m

_NEVER = -1


def deletion_frames(before: ClusterImage, deletions: Sequence[DeletionRecord], facts: OwnFacts) -> Iterator[bytes]:
    """Yield the records of changed deletions. Data for a NoOpRecord that is not full yet stays in `facts`."""
    for record in deletions:
        known = before.deletions.get(record.topic_id)
        same = known is not None and all(
            getattr(known, field) is getattr(record, field) or getattr(known, field) == getattr(record, field)
            for field in BULK
        )
        facts.add("deletions", _head(record, same_data=same))
        for piece in () if same else _pieces(record):
            facts.add("deletion_data", piece, weight=ELEMENTS_MAX // 10 + _size(piece))
            yield from facts.full()


def _size(piece: Any) -> int:
    return max(map(len, (piece.partitions, piece.ends, piece.isr, piece.departed, piece.offsets)))


def _head(record: DeletionRecord, *, same_data: bool) -> Any:
    return m.NoOpRecord_Deletion(
        topic_name=record.topic,
        topic_id=record.topic_id,
        state=record.state,
        created_ms=record.created_ms,
        deleted_ms=record.deleted_ms,
        deleted_by=record.deleted_by,
        remove_after_ms=record.remove_after_ms,
        config=settings_of(record.config.items()),
        leader_epoch_max=record.leader_epoch_max,
        how=record.how,
        lineage=lineage_of(record.lineage),
        successor=record.successor or Uuid.ZERO,
        restore_as=record.restore_as,
        restored_by=record.restored_by,
        restored_ms=record.restored_ms,
        offsets_for=record.offsets_for or Uuid.ZERO,
        by_order=record.by_order,
        missing=None if record.missing is None else list(record.missing),
        closed=record.closed,
        outcomes=[
            m.NoOpRecord_TransactionOutcome(
                outcome.producer_id,
                outcome.producer_epoch,
                outcome.coordinator_epoch,
                outcome.committed,
                outcome.version,
                list(outcome.partitions),
            )
            for outcome in record.outcomes
        ],
        pieces=record.pieces,
        unregistered=list(record.unregistered),
        offsets_given=list(record.offsets_given),
        delay_max_ms=record.delay_max_ms,
        same_data=same_data,
    )


def _pieces(record: DeletionRecord) -> Iterator[Any]:
    lists = pieces(
        [m.NoOpRecord_DeletedPartition(index, list(replicas)) for index, replicas in record.partitions.items()],
        [m.NoOpRecord_LogRange(start, end) for start, end in record.ends],
        [list(members) for members in record.isr],
        [m.NoOpRecord_DepartedBrokers(index, list(brokers)) for index, brokers in record.departed.items()],
        [_offset_struct(offset) for offset in record.offsets],
    )
    return (m.NoOpRecord_DeletionData(record.topic_id, *piece) for piece in lists)


def _offset_struct(offset: Mapping[str, Any]) -> Any:
    expires = offset.get("expire_timestamp_ms")
    return m.NoOpRecord_DeletedOffset(
        offset["group"],
        offset["partition"],
        offset["offset"],
        offset["leader_epoch"],
        offset["metadata"],
        offset["commit_timestamp_ms"],
        _NEVER if expires is None else expires,
        offset.get("log_offset", -1),
    )


def _offset_from(struct: Any) -> Mapping[str, Any]:
    return {
        "group": struct.group,
        "partition": struct.partition_id,
        "offset": struct.offset,
        "leader_epoch": struct.leader_epoch,
        "metadata": struct.metadata,
        "commit_timestamp_ms": struct.commit_timestamp_ms,
        "expire_timestamp_ms": None if struct.expire_timestamp_ms == _NEVER else struct.expire_timestamp_ms,
        "log_offset": struct.log_offset,
    }


class DeletionReader:
    """Reads deletion records from metadata records. The metadata records contain differences from an image."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self._heads: dict[Uuid, Any] = {}
        self._data: dict[Uuid, Any] = {}

    def heads(self, structs: list[Any]) -> None:
        """Read the heads in a NoOpRecord."""
        for head in structs:
            self._heads[head.topic_id] = head

    def data(self, structs: list[Any]) -> None:
        """Read the pieces in a NoOpRecord."""
        for piece in structs:
            known = self._data.setdefault(piece.topic_id, piece)
            if known is not piece:
                for field in ("partitions", "ends", "isr", "departed", "offsets"):
                    getattr(known, field).extend(getattr(piece, field))

    def records(self) -> tuple[DeletionRecord, ...]:
        """Return the changed deletion records. Raises UnreadableRecordError if a piece is missing."""
        return tuple(map(self._record, self._heads.values()))

    def _record(self, head: Any) -> DeletionRecord:
        data = self._data.get(head.topic_id)
        known = self._before.deletions.get(head.topic_id)
        if head.same_data and known is not None:
            bulk = {field: getattr(known, field) for field in BULK}
        elif data is not None and not head.same_data:
            bulk = {
                "partitions": {partition.partition_id: tuple(partition.replicas) for partition in data.partitions},
                "ends": tuple((end.start_offset, end.end_offset) for end in data.ends),
                "isr": tuple(map(tuple, data.isr)),
                "departed": {departure.partition_id: tuple(departure.brokers) for departure in data.departed},
                "offsets": tuple(map(_offset_from, data.offsets)),
            }
        else:
            raise UnreadableRecordError(f"the deletion of topic {head.topic_id} has no partitions")
        return DeletionRecord(
            topic=head.topic_name,
            topic_id=head.topic_id,
            state=head.state,
            created_ms=head.created_ms,
            deleted_ms=head.deleted_ms,
            deleted_by=head.deleted_by,
            remove_after_ms=head.remove_after_ms,
            config=settings_from(head.config),
            leader_epoch_max=head.leader_epoch_max,
            how=head.how,
            lineage=lineage_from(head.lineage),
            successor=head.successor or None,
            restore_as=head.restore_as,
            restored_by=head.restored_by,
            restored_ms=head.restored_ms,
            offsets_for=head.offsets_for or None,
            by_order=head.by_order,
            missing=None if head.missing is None else tuple(head.missing),
            closed=head.closed,
            outcomes=tuple(
                TransactionOutcome(
                    outcome.producer_id,
                    outcome.producer_epoch,
                    outcome.coordinator_epoch,
                    outcome.committed,
                    outcome.version,
                    tuple(outcome.partitions),
                )
                for outcome in head.outcomes
            ),
            pieces=head.pieces,
            unregistered=tuple(head.unregistered),
            offsets_given=tuple(head.offsets_given),
            delay_max_ms=head.delay_max_ms,
            **bulk,
        )

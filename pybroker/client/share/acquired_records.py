"""Decoding of the records that this member has acquired in a partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pybroker.client.client_errors import ErrorCode, KafkaError
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.share.acknowledgements import GAP, AcknowledgeType
from pybroker.native import ConsumerRecord, RecordDecoder, Uuid


@dataclass(slots=True)
class AcquiredRecords:
    """The acquired records of one partition."""

    records: list[tuple[ConsumerRecord, int]] = field(default_factory=list)
    """(record, delivery count)"""
    answered: dict[int, int] = field(default_factory=dict)
    """Offset → acknowledgement type, for offsets without a record and for unreadable records. The member acknowledges
    them immediately.
    """
    problem: KafkaError | None = None
    """The reason why the first unreadable record cannot be read."""


def decode_acquired(decoder: RecordDecoder, row: Any, *, topic: str, topic_id: Uuid) -> AcquiredRecords:
    """Decode a response row. The row has whole batches, of which this member has acquired only some offsets."""
    counts = {
        offset: acquired.delivery_count
        for acquired in row.acquired_records
        for offset in range(acquired.first_offset, acquired.last_offset + 1)
    }
    found = AcquiredRecords()
    at, last = min(counts), max(counts)
    while at <= last:
        decoded = decoder.decode(row.records, at, topic=topic, topic_id=topic_id, partition=row.partition_index)
        ours = [record for record in decoded.records if record.offset in counts]
        found.records.extend((record, counts.pop(record.offset)) for record in ours)
        if decoded.error is None:
            break
        unread = max(decoded.next_offset, at)
        at = unread + 1
        if counts.pop(unread, None) is not None:
            damaged = getattr(decoded.error, "code", None) is not None
            found.answered[unread] = AcknowledgeType.REJECT if damaged else AcknowledgeType.RELEASE
            if found.problem is None:
                where = TopicPartition(topic, row.partition_index)
                found.problem = KafkaError(
                    getattr(decoded.error, "code", ErrorCode.INVALID_RECORD),
                    (
                        f"cannot read {where}, offset {unread}, which was {'rejected' if damaged else 'released'}: "
                        f"{decoded.error!r}"
                    ),
                )
                found.problem.__cause__ = decoded.error
    found.answered.update(dict.fromkeys(counts, GAP))
    return found

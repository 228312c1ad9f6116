"""From what a partition gave to the records that this member has acquired."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pybroker.client.cluster import TopicPartition
from pybroker.client.errors import ErrorCode, KafkaError
from pybroker.client.share.acknowledgements import GAP, AcknowledgeType
from pybroker.native import ConsumerRecord, RecordDecoder, Uuid


@dataclass(slots=True)
class Given:
    """Of one partition."""

    records: list[tuple[ConsumerRecord, int]] = field(default_factory=list)
    """With how often it was delivered."""
    answered: dict[int, int] = field(default_factory=dict)
    """Offset → what is said of it at once: there is no record, or it cannot be read."""
    problem: KafkaError | None = None
    """Why the first of those cannot be read."""


def given(decoder: RecordDecoder, row: Any, *, topic: str, topic_id: Uuid) -> Given:
    """The answer holds whole batches, of which only some offsets are ours."""
    counts = {
        offset: acquired.delivery_count
        for acquired in row.acquired_records
        for offset in range(acquired.first_offset, acquired.last_offset + 1)
    }
    found = Given()
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
                    f"{where}, offset {unread} cannot be read and was {'rejected' if damaged else 'released'}: "
                    f"{decoded.error!r}",
                )
                found.problem.__cause__ = decoded.error
    found.answered.update(dict.fromkeys(counts, GAP))
    return found

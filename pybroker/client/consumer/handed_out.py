"""The records that the caller got last: it finishes them by asking for more, by a commit, or by a seek."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybroker.client.cluster import TopicPartition
from pybroker.native import ConsumerRecord


class DeliveredRecords:
    """The records of the last poll, or the last record of an iteration (`last`, which then replaces the others)."""

    def __init__(self) -> None:
        self.last: ConsumerRecord | None = None
        self._first: dict[TopicPartition, int] = {}

    def took(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        """Note the records that the caller gets now; it has finished the earlier ones."""
        self.last, self._first = None, {where: records[0].offset for where, records in found.items()}

    def said(self, partition: TopicPartition, offset: int | None = None, position: int | None = None) -> None:
        """Note that the caller committed `offset`, with `position` behind all delivered records, or moved elsewhere in
        the partition (None).
        """
        first = self._first = self.unfinished()
        self.last = None
        if partition not in first:
            return
        if offset is None or position is None or offset >= position:
            del first[partition]
        else:
            first[partition] = max(offset, first[partition])

    def unfinished(self) -> dict[TopicPartition, int]:
        """Return the first offset in each partition that the caller may not have finished."""
        if self.last is not None:
            return {TopicPartition(self.last.topic, self.last.partition): self.last.offset}
        return self._first

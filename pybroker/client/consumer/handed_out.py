"""What a consumer's caller got last: it has finished with it when it asks for more, or says itself where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybroker.client.cluster import TopicPartition
from pybroker.native import ConsumerRecord


class HandedOut:
    """The records of the last poll, or the last record of an iteration. last: of an iteration; replaces the others."""

    def __init__(self) -> None:
        self.last: ConsumerRecord | None = None
        self._first: dict[TopicPartition, int] = {}

    def took(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        """The caller gets these now, so it has finished with what it got before."""
        self.last, self._first = None, {where: records[0].offset for where, records in found.items()}

    def said(self, partition: TopicPartition, offset: int | None = None, position: int | None = None) -> None:
        """The caller has committed `offset` of a partition, where `position` follows all that it got; or has gone
        somewhere else in it (None).
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
        """The first offset of each partition with which the caller may not have finished."""
        if self.last is not None:
            return {TopicPartition(self.last.topic, self.last.partition): self.last.offset}
        return self._first

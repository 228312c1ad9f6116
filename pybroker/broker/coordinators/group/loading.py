"""Replay of one offsets partition: keeps the last record of every key. Runs in a worker thread."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from pybroker.broker.coordinators.consumer.records import StoredConsumerGroup
from pybroker.broker.coordinators.group.records import (
    EpochGroupKey,
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.share.records import StoredShareGroup
from pybroker.broker.coordinators.streams.records import StoredStreamsGroup
from pybroker.native import CodecError, StoredRecord, Uuid

log = logging.getLogger(__name__)

StoredOffset = tuple[int, OffsetValue]
"""(offset of the record, value)."""

Pending = dict[tuple[OffsetKey, Uuid | None], StoredOffset]
"""The commits of one transaction. The key names the topic only; the topic id is part of the value."""

StoredGroup = StoredConsumerGroup | StoredShareGroup | StoredStreamsGroup

STORED: dict[GroupKind, type[StoredGroup]] = {
    GroupKind.CONSUMER: StoredConsumerGroup,
    GroupKind.SHARE: StoredShareGroup,
    GroupKind.STREAMS: StoredStreamsGroup,
}


class LoadedGroups(msgspec.Struct):
    """The last value of every key. Implements the shards' `Replay`."""

    offsets: dict[OffsetKey, StoredOffset] = {}
    earlier: dict[OffsetKey, dict[Uuid, StoredOffset]] = {}
    """Last values for other incarnations of the key's topic, which may be undeleted."""
    pending: dict[int, Pending] = {}
    """Producer → its commits in a transaction that has not ended."""
    classic_groups: dict[str, GroupValue] = {}
    epoch_groups: dict[tuple[GroupKind, str], StoredGroup] = {}
    """The groups, in the order of their last records. If tombstones could not be written, two groups of different kinds
    may have the same id; the later one is valid."""
    records: int = 0
    damaged: int = 0
    """Undecodable records, which are skipped."""

    def take(self, record: StoredRecord) -> None:
        """Apply one record; a tombstone removes its key, and a marker ends a transaction."""
        self.records += 1
        if record.committed is not None:
            self._end(record.producer_id, committed=record.committed)
            return
        if record.key is None:
            self.damaged += 1
            return
        try:
            parsed = decode_key(record.key)
            if isinstance(parsed, OffsetKey):
                self._take_offset(parsed, record)
            elif isinstance(parsed, GroupKey):
                if record.value is None:
                    self.classic_groups.pop(parsed.group, None)
                else:
                    self.classic_groups[parsed.group] = decode_group_value(record.value)
            elif isinstance(parsed, EpochGroupKey):
                # Remove the group before adding it again. This keeps the groups in the order of their last records.
                stored = self.epoch_groups.pop((parsed.kind, parsed.group), None) or STORED[parsed.kind]()
                self.epoch_groups[parsed.kind, parsed.group] = stored
                stored.take(parsed.record_type, parsed.name, record.value)
        except CodecError as problem:
            self.damaged += 1
            log.warning("skipped an unreadable record of the offsets topic offset=%d: %s", record.offset, problem)

    def _take_offset(self, key: OffsetKey, record: StoredRecord) -> None:
        if record.value is None:
            self.offsets.pop(key, None)
            self.earlier.pop(key, None)
            for pending in self.pending.values():
                for pair in [pair for pair in pending if pair[0] == key]:
                    del pending[pair]
            return
        stored = record.offset, decode_offset_value(record.value)
        if record.producer_id >= 0:
            self.pending.setdefault(record.producer_id, {})[key, stored[1].topic_id] = stored
        else:
            self._put(key, stored)

    def _end(self, producer_id: int, *, committed: bool) -> None:
        for (key, _), stored in self.pending.pop(producer_id, {}).items():
            if committed:
                self._put(key, stored)

    def _put(self, key: OffsetKey, stored: StoredOffset) -> None:
        """Store a value, unless the key already has a later value of the same incarnation: a commit in a transaction
        may be older than commits outside the transaction."""
        last = self.offsets.get(key)
        if last is not None and last[1].topic_id != stored[1].topic_id:
            # A value without an id belongs to the current incarnation of the name. Beside a later value it counts for
            # nothing.
            older = min(last, stored, key=lambda value: value[0])
            topic_id = older[1].topic_id
            if topic_id is not None:
                others = self.earlier.setdefault(key, {})
                if topic_id not in others or others[topic_id][0] < older[0]:
                    others[topic_id] = older
        if last is None or last[0] < stored[0]:
            self.offsets[key] = stored

    def every_offset(self) -> Iterator[tuple[OffsetKey, int, OffsetValue]]:
        """Yield (key, offset of the record, value) of the last values for each incarnation."""
        for key, (at, value) in self.offsets.items():
            yield key, at, value
            for topic_id, (earlier_at, earlier) in self.earlier.get(key, {}).items():
                if topic_id != value.topic_id:
                    yield key, earlier_at, earlier

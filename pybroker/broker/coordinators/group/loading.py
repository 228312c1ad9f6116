"""Replay of one offsets partition: keeps the last record of every key. Runs in a worker thread."""

from __future__ import annotations

import logging

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
from pybroker.native import CodecError, StoredRecord

log = logging.getLogger(__name__)

Pending = dict[OffsetKey, tuple[int, OffsetValue]]
"""Key → (offset of its record, value)."""


StoredGroup = StoredConsumerGroup | StoredShareGroup | StoredStreamsGroup

STORED: dict[GroupKind, type[StoredGroup]] = {
    GroupKind.CONSUMER: StoredConsumerGroup,
    GroupKind.SHARE: StoredShareGroup,
    GroupKind.STREAMS: StoredStreamsGroup,
}


class LoadedGroups(msgspec.Struct):
    """The last value of every key. Implements the shards' `Replay`."""

    offsets: Pending = {}
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
            for pending in self.pending.values():
                pending.pop(key, None)
            return
        stored = record.offset, decode_offset_value(record.value)
        if record.producer_id >= 0:
            self.pending.setdefault(record.producer_id, {})[key] = stored
        else:
            self.offsets[key] = stored

    def _end(self, producer_id: int, *, committed: bool) -> None:
        for key, stored in self.pending.pop(producer_id, {}).items():
            # Keep newer commits that were made outside a transaction.
            if committed and self.offsets.get(key, (-1, None))[0] < stored[0]:
                self.offsets[key] = stored

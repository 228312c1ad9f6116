"""The offsets of one shard's groups in deleted and undeleted topics.

The deletion record of a topic keeps the committed offsets, so that an undelete brings them back. Until it has them, the
records in the offsets topic are the only copy: no commit may replace them, and their tombstones wait.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from pybroker.broker.coordinators.group.offsets import (
    CommittedOffset,
    KeepOffsetsOf,
    Offsets,
    kept_offset,
    offset_value,
)
from pybroker.broker.coordinators.group.records import OffsetKey, encode_offset
from pybroker.broker.coordinators.group.transactional_offsets import TransactionalOffsets
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.shards.log import ShardLog
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

WriteTombstones = Callable[[list[OffsetKey], Callable[[ErrorCode], None]], None]


class DeletedTopicOffsets:
    """Keeps and buries the offsets of deleted topics, and gives those of undeleted topics their present name."""

    def __init__(
        self,
        shard_log: ShardLog,
        offsets: Offsets,
        transactions: TransactionalOffsets,
        *,
        topics: Topics,
        keep_offsets: KeepOffsetsOf,
        note_group: Callable[[str], object],
        write_tombstones: WriteTombstones,
    ) -> None:
        """`note_group` creates a group without members if the group does not exist."""
        self._log = shard_log
        self._offsets = offsets
        self._transactions = transactions
        self._topics = topics
        self._keep_offsets = keep_offsets
        self._note_group = note_group
        self._write_tombstones = write_tombstones
        self._protected: Counter[OffsetKey] = Counter()
        """Keys that accept no commits. Their topic is deleted, and its deletion record does not have the offsets yet:
        if this broker dies, the next coordinator reads the records of these keys."""
        self._obsolete: set[OffsetKey] = set()
        """Keys whose tombstones are postponed: a record of the key is still needed."""

    def drop_topic(
        self, topic_id: Uuid, keys: Sequence[OffsetKey], late: Collection[tuple[str, int]]
    ) -> Callable[[bool], None]:
        """Drop the offsets of a deleted incarnation, which have these keys.

        `late`: group and partition of the offsets that the deletion record lacks. They stay until the returned function
        is called with the information whether the topic is live again. Offsets in open transactions stay until the
        transactions end.
        """
        kept: dict[OffsetKey, CommittedOffset] = {}
        # A commit that is being written fails. Its record follows the offset's, and a tombstone has to follow both.
        followed: set[OffsetKey] = set()
        for key in keys if late else ():
            value = self._offsets.get(key.group, topic_id, key.partition)
            if value is not None and (key.group, key.partition) in late:
                kept[key] = value
                if self._offsets.is_in_flight(topic_id, key):
                    followed.add(key)
        self._offsets.drop_topic(topic_id)
        obsolete = dict.fromkeys(key for key in keys if key not in kept)
        self._bury([*obsolete, *self._transactions.keys_of_topic(topic_id)])
        self._hold(topic_id, kept, followed)
        return partial(self._let_go, topic_id, kept)

    def keep(self, topic_id: Uuid, offsets: Mapping[OffsetKey, CommittedOffset]) -> None:
        """Add committed offsets of a deleted topic to its deletion record, unless it has them."""
        held: dict[OffsetKey, CommittedOffset] = {}
        kept = tuple(kept_offset(key.group, key.partition, value) for key, value in offsets.items())
        late = self._keep_offsets(topic_id, kept, partial(self._let_go, topic_id, held))
        held.update({key: value for key, value in offsets.items() if (key.group, key.partition) in late})
        self._hold(topic_id, held)

    def _hold(
        self, topic_id: Uuid, late: Mapping[OffsetKey, CommittedOffset], followed: Collection[OffsetKey] = ()
    ) -> None:
        """Keep the records of offsets that the topic's deletion record lacks, until `_let_go`.

        Except for `followed`, the offsets also stay in memory under the id of the deleted topic: if an undelete makes
        the topic visible first, its groups see them, and no older offset from the deletion record is written after
        them.
        """
        for key, value in late.items():
            if key not in followed:
                self._note_group(key.group)
                self._offsets.put(key.group, topic_id, key.topic, key.partition, value)
        self._protected.update(late.keys())

    def _let_go(self, topic_id: Uuid, late: Mapping[OffsetKey, CommittedOffset], is_live: bool) -> None:
        """End `_hold`: the deletion record has the offsets. `is_live`: whether the topic was live again by then."""
        self._protected.subtract(late.keys())
        for key, value in late.items():
            if self._protected[key] <= 0:
                del self._protected[key]
            if self._offsets.get(key.group, topic_id, key.partition) == value:
                if is_live or self._topics.topic_name(topic_id) is not None:
                    # The topic is back, and these are its offsets.
                    continue
                self._offsets.remove(key.group, topic_id, key.partition)
            self._obsolete.add(key)
        self.bury_released()

    def put_live(self, topic_id: Uuid, key: OffsetKey, value: CommittedOffset) -> None:
        """Store a durable offset of an existing topic. The topic may have another name than when the offset was
        committed: it was deleted and undeleted since."""
        name = self._topics.topic_name(topic_id)
        if name is None or name == key.topic:
            self._offsets.put(key.group, topic_id, key.topic, key.partition, value)
            return
        self.rename_offsets(key.group, topic_id, name)
        if self._transactions.is_unstable(key.group, topic_id, key.partition):
            # A record written now would follow that of the open transaction, which is newer.
            value = msgspec.structs.replace(value, log_offset=-1)
        self._offsets.put(key.group, topic_id, name, key.partition, value)
        if value.log_offset >= 0:
            self._write_renamed(topic_id, name, {key: value})

    def rename_offsets(self, group_id: str, topic_id: Uuid, name: str) -> None:
        """Write a group's offsets of an undeleted topic under its present name, unless they have it."""
        renamed = self._offsets.rename(group_id, topic_id, name)
        if renamed:
            self._write_renamed(topic_id, name, renamed)

    def _write_renamed(self, topic_id: Uuid, name: str, offsets: Mapping[OffsetKey, CommittedOffset]) -> None:
        """Write offsets that have these keys under another name of their topic, and then tombstones for the old keys.
        If that fails, the next load repeats it."""
        self._offsets.revoke_delegated()
        moved: list[tuple[OffsetKey, OffsetKey, CommittedOffset]] = []
        for key, value in offsets.items():
            new = OffsetKey(key.group, name, key.partition)
            # A later commit replaces the offset anyway: one that is being written, or one in an open transaction.
            if (
                self._offsets.get(key.group, topic_id, key.partition) == value
                and not self._offsets.is_in_flight(topic_id, new)
                and not self._transactions.is_unstable(key.group, topic_id, key.partition)
            ):
                moved.append((key, new, value))

        def written(error: ErrorCode, at: int) -> None:
            if error is not ErrorCode.NONE:
                return
            for position, (_, new, value) in enumerate(moved):
                if self._offsets.get(new.group, topic_id, new.partition) == value:
                    stored = msgspec.structs.replace(value, log_offset=at + position)
                    self._offsets.put(new.group, topic_id, name, new.partition, stored)
            self._obsolete.update(key for key, _, _ in moved)
            self.bury_released()

        if moved:
            records = [encode_offset(new, offset_value(topic_id, value)) for _, new, value in moved]
            self._log.write(records, written)

    def _bury(self, keys: Iterable[OffsetKey]) -> None:
        """Write tombstones for offsets of a deleted topic. Postpone those of keys whose records are still needed."""
        unstable = self._transactions.unstable_keys()
        needed = {key for key in keys if key in unstable or key in self._protected}
        self._obsolete |= needed
        self._write_tombstones_of_deleted([key for key in keys if key not in needed])

    def bury_released(self) -> None:
        """Write the postponed tombstones that are due. A tombstone is due when no open transaction has an offset of its
        key, and the deletion record has the key's committed offset."""
        if not self._obsolete:
            return
        unstable = self._transactions.unstable_keys()
        free = [key for key in self._obsolete if key not in unstable and key not in self._protected]
        self._obsolete.difference_update(free)
        # After an undelete, or for another incarnation of the name, a key may have a new record already.
        self._write_tombstones_of_deleted([key for key in free if not self._offsets.has(key)])

    def _write_tombstones_of_deleted(self, keys: list[OffsetKey]) -> None:
        if keys:
            self._write_tombstones(keys, partial(_note_tombstones, sorted({key.topic for key in keys})))

    def is_protected(self, group_id: str, name: str, partition: int | None = None) -> bool:
        """Return whether a commit has to wait. With partition None, return whether a commit for any partition of the
        topic has to wait."""
        if not self._protected:
            return False
        if partition is not None:
            return OffsetKey(group_id, name, partition) in self._protected
        return any((key.group, key.topic) == (group_id, name) for key in self._protected)


def _note_tombstones(names: Sequence[str], error: ErrorCode) -> None:
    if error not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
        # No data is at risk: the records name the topic id of a deleted topic, and the next load skips them.
        log.warning(
            "cannot store tombstones for the offsets of a deleted topic topic=%s: %s", ", ".join(names), error.name
        )

"""Offsets of one offsets partition that were committed in open transactions (KIP-98).

A commit marker makes the transaction's offsets visible; an abort marker discards them. This broker appends commits and
markers in a known order, but their writes may complete in another order. Their offsets in the log therefore decide
which marker ends which commit.

The offsets of a deleted topic stay pending: if the transaction commits, they belong in the topic's deletion record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from pybroker.broker.coordinators.group.offsets import CommittedOffset
from pybroker.broker.coordinators.group.records import OffsetKey, OffsetValue
from pybroker.native import Uuid

Item = tuple[Uuid, OffsetKey, OffsetValue]
Counting = tuple[Uuid, OffsetKey, CommittedOffset]
"""(topic id, key, offset) of a commit that has become visible."""


class PendingCommit(msgspec.Struct, eq=False):
    """One offset commit in an open transaction."""

    producer_id: int
    epoch: int
    items: list[Item | None]
    """The committed offsets; None for an offset whose group was deleted."""
    at: int = -1
    """Log offset of the commit's first record; −1 while it is being written."""
    markers: list[tuple[int, bool]] = []
    """(log offset, whether it is a commit marker) of markers that completed while this commit was being written."""


class Watch:
    """Observes whether a producer's transaction ends in this partition. The owner must call `close` at the end."""

    __slots__ = ("_producer_id", "_watches", "broken")

    def __init__(self, watches: dict[int, list[Watch]], producer_id: int) -> None:
        self._watches = watches
        self._producer_id = producer_id
        self.broken = False
        watches.setdefault(producer_id, []).append(self)

    def close(self) -> None:
        """Stop watching."""
        others = self._watches[self._producer_id]
        others.remove(self)
        if not others:
            del self._watches[self._producer_id]


class TransactionalOffsets:
    """The pending transactional offsets of one shard."""

    def __init__(self) -> None:
        self._pending: dict[int, list[PendingCommit]] = {}
        self._unstable: Counter[tuple[Uuid, OffsetKey]] = Counter()
        self._watches: dict[int, list[Watch]] = {}

    # --- commits ------------------------------------------------------------------------------------------------------

    def holds(self, producer_id: int, epoch: int) -> bool:
        """Return whether this partition already has offsets of the producer's open transaction."""
        return any(pending.epoch == epoch and not pending.markers for pending in self._pending.get(producer_id, ()))

    def began(self, producer_id: int, epoch: int, items: Sequence[Item]) -> PendingCommit:
        """Add a commit that is being written."""
        pending = PendingCommit(producer_id, epoch, list(items))
        self._pending.setdefault(producer_id, []).append(pending)
        for topic_id, key, _ in items:
            self._unstable[topic_id, key] += 1
        return pending

    def written(self, pending: PendingCommit, at: int) -> list[Counting]:
        """Note that a commit is durable, from log offset `at`. Return its offsets if the transaction has been committed
        in the meantime."""
        pending.at = at
        for where, committed in pending.markers:
            if where > at:
                return self._settle(pending, committed=committed)
        return []

    def failed(self, pending: PendingCommit) -> None:
        """Discard a commit that could not be written."""
        self._settle(pending, committed=False)

    # --- markers ------------------------------------------------------------------------------------------------------

    def watch(self, producer_id: int) -> Watch:
        """Start to observe markers of a producer."""
        return Watch(self._watches, producer_id)

    def ending(self, producer_id: int) -> None:
        """Note that a transaction marker of the producer is being written."""
        for watch in self._watches.get(producer_id, ()):
            watch.broken = True

    def ended(self, producer_id: int, at: int, *, committed: bool) -> list[Counting]:
        """Apply a durable transaction marker at log offset `at`; return the offsets that become visible."""
        counting: list[Counting] = []
        for pending in list(self._pending.get(producer_id, ())):
            if pending.at < 0:
                pending.markers.append((at, committed))
            elif pending.at < at:
                counting += self._settle(pending, committed=committed)
        return counting

    def _settle(self, pending: PendingCommit, *, committed: bool) -> list[Counting]:
        left = self._pending[pending.producer_id]
        left.remove(pending)
        if not left:
            del self._pending[pending.producer_id]
        counting: list[Counting] = []
        for index, item in enumerate(pending.items):
            if item is None:
                continue
            topic_id, key, value = item
            self._unstable[topic_id, key] -= 1
            if not self._unstable[topic_id, key]:
                del self._unstable[topic_id, key]
            if committed:
                counting.append((topic_id, key, CommittedOffset.stored(value, pending.at + index)))
        return counting

    # --- queries ------------------------------------------------------------------------------------------------------

    def unstable_of(self, group: str) -> list[tuple[Uuid, OffsetKey]]:
        """Return the group's offsets that open transactions may still change."""
        return [pair for pair in self._unstable if pair[1].group == group] if self._unstable else []

    def unstable_keys(self) -> set[OffsetKey]:
        """Return the keys of all offsets in open transactions, of any incarnation."""
        return {key for _, key in self._unstable}

    def is_unstable(self, group: str, topic_id: Uuid, partition: int) -> bool:
        """Return whether an open transaction may still change an offset."""
        return any(of == topic_id and key.partition == partition for of, key in self.unstable_of(group))

    def keys_of_topic(self, topic_id: Uuid) -> list[OffsetKey]:
        """Return the keys of one incarnation's offsets in open transactions."""
        return [key for of, key in self._unstable if of == topic_id]

    def has_topic(self, topic_id: Uuid) -> bool:
        """Return whether a commit for this topic is being written."""
        return any(
            pending.at < 0 and any(item is not None and item[0] == topic_id for item in pending.items)
            for all_of_one in self._pending.values()
            for pending in all_of_one
        )

    # --- removal ------------------------------------------------------------------------------------------------------

    def drop_group(self, group: str) -> list[tuple[Uuid, OffsetKey]]:
        """Drop the pending offsets of a deleted group; return their keys."""
        gone = self.unstable_of(group)
        for pair in gone:
            del self._unstable[pair]
        doomed = set(gone)
        for all_of_one in self._pending.values() if doomed else ():
            for pending in all_of_one:
                # Replace the item by None instead of removing it: its position determines the log offsets of the other
                # items.
                pending.items = [
                    None if item is not None and (item[0], item[1]) in doomed else item for item in pending.items
                ]
        return gone

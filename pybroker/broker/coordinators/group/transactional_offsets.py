"""Offsets of one offsets partition that were committed in transactions which have not ended (KIP-98).

They count when the transaction's commit marker is written to the partition, and are forgotten with its abort marker.
Appends and markers go into the log in the order in which this broker's loop starts them, but may be heard of in another
one: what decides is where they lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from pybroker.broker.coordinators.group.offsets import CommittedOffset
from pybroker.broker.coordinators.group.records import OffsetKey, OffsetValue
from pybroker.native import Uuid

Item = tuple[Uuid, OffsetKey, OffsetValue]
Counting = tuple[Uuid, OffsetKey, CommittedOffset]
"""An offset that counts from now on."""


class PendingCommit(msgspec.Struct, eq=False):
    """One commit in a transaction."""

    producer_id: int
    epoch: int
    items: list[Item | None]
    """None: what it was for is gone."""
    at: int = -1
    """Where its first record lies; −1 while it is being written."""
    markers: list[tuple[int, bool]] = []
    """(where it lies, whether it commits) of markers that were heard of while this was being written."""


class Watch:
    """Whether a transaction of a producer has ended here since this was made. To be closed."""

    __slots__ = ("_producer_id", "_watches", "broken")

    def __init__(self, watches: dict[int, list[Watch]], producer_id: int) -> None:
        self._watches = watches
        self._producer_id = producer_id
        self.broken = False
        watches.setdefault(producer_id, []).append(self)

    def close(self) -> None:
        """Watches no more."""
        others = self._watches[self._producer_id]
        others.remove(self)
        if not others:
            del self._watches[self._producer_id]


class TransactionalOffsets:
    """See the module."""

    def __init__(self) -> None:
        self._pending: dict[int, list[PendingCommit]] = {}
        self._unstable: Counter[tuple[Uuid, OffsetKey]] = Counter()
        self._watches: dict[int, list[Watch]] = {}

    # --- commits ------------------------------------------------------------------------------------------------------

    def holds(self, producer_id: int, epoch: int) -> bool:
        """The transaction of this producer is open here already."""
        return any(pending.epoch == epoch and not pending.markers for pending in self._pending.get(producer_id, ()))

    def began(self, producer_id: int, epoch: int, items: Sequence[Item]) -> PendingCommit:
        """A commit is on its way to disk."""
        pending = PendingCommit(producer_id, epoch, list(items))
        self._pending.setdefault(producer_id, []).append(pending)
        for topic_id, key, _ in items:
            self._unstable[topic_id, key] += 1
        return pending

    def written(self, pending: PendingCommit, at: int) -> list[Counting]:
        """It is on disk from offset `at` on; what counts of it, if its transaction has been committed meanwhile."""
        pending.at = at
        for where, committed in pending.markers:
            if where > at:
                return self._settle(pending, committed=committed)
        return []

    def failed(self, pending: PendingCommit) -> None:
        """It could not be written."""
        self._settle(pending, committed=False)

    # --- markers ------------------------------------------------------------------------------------------------------

    def watch(self, producer_id: int) -> Watch:
        """Watches for markers of a producer."""
        return Watch(self._watches, producer_id)

    def ending(self, producer_id: int) -> None:
        """A marker is on its way to disk."""
        for watch in self._watches.get(producer_id, ()):
            watch.broken = True

    def ended(self, producer_id: int, at: int, *, committed: bool) -> list[Counting]:
        """A marker is on disk at offset `at`; what counts from now on."""
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

    # --- questions ----------------------------------------------------------------------------------------------------

    def is_unstable(self, group: str, topic_id: Uuid, name: str, partition: int) -> bool:
        """Whether an offset depends on a transaction that has not ended."""
        return bool(self._unstable) and (topic_id, OffsetKey(group, name, partition)) in self._unstable

    def unstable_of(self, group: str) -> list[tuple[Uuid, OffsetKey]]:
        """All of a group that depend on transactions."""
        return [pair for pair in self._unstable if pair[1].group == group] if self._unstable else []

    def has_topic(self, topic_id: Uuid) -> bool:
        """Whether a commit for this topic is being written."""
        return any(
            pending.at < 0 and any(item is not None and item[0] == topic_id for item in pending.items)
            for all_of_one in self._pending.values()
            for pending in all_of_one
        )

    # --- what goes ----------------------------------------------------------------------------------------------------

    def drop_topic(self, topic_id: Uuid) -> list[OffsetKey]:
        """An incarnation is gone; the keys of what waited for it."""
        return [key for of, key in self._drop(lambda of, key: of == topic_id)]

    def drop_group(self, group: str) -> list[tuple[Uuid, OffsetKey]]:
        """A group is gone."""
        return self._drop(lambda of, key: key.group == group)

    def _drop(self, goes: Callable[[Uuid, OffsetKey], bool]) -> list[tuple[Uuid, OffsetKey]]:
        gone = [pair for pair in self._unstable if goes(*pair)]
        for pair in gone:
            del self._unstable[pair]
        doomed = set(gone)
        for all_of_one in self._pending.values() if doomed else ():
            for pending in all_of_one:
                # Their places stay: where the others of the commit lie is counted from its first.
                pending.items = [
                    None if item is not None and (item[0], item[1]) in doomed else item for item in pending.items
                ]
        return gone

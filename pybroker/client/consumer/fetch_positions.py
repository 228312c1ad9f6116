"""A consumer's positions, and the fetched records that are not delivered yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.offset_types import OffsetSpec
from pybroker.native import ConsumerRecord, Uuid


@dataclass(slots=True)
class Chunk:
    """Records of one response. next_offset: the offset after these records and after control batches. error: the error
    to raise after the records.
    """

    records: list[ConsumerRecord]
    next_offset: int
    error: Exception | None = None
    taken: int = 0

    def take(self, count: int) -> list[ConsumerRecord]:
        """Take up to `count` of the remaining records."""
        if self.taken == 0 and count >= len(self.records):
            self.taken = len(self.records)
            return self.records
        part = self.records[self.taken : self.taken + count]
        self.taken += len(part)
        return part

    def next(self) -> ConsumerRecord | None:
        """Take the next record, but not the last: `PartitionState.take` takes the last record, because it also drops
        the chunk."""
        if self.taken + 1 >= len(self.records):
            return None
        self.taken += 1
        return self.records[self.taken - 1]

    @property
    def is_empty(self) -> bool:
        """Whether all records are taken."""
        return self.taken >= len(self.records)


@dataclass(slots=True, eq=False)
class PartitionState:
    """One partition of a consumer.

    topic_id: the incarnation that the position belongs to; Uuid.ZERO from brokers without topic ids. position: the next
    offset to deliver, None until known. fetch_offset: the next offset to fetch. epoch: leader epoch of the record
    before the position, -1 unknown. reset: the offset to look up before fetching. turn: number of seeks. A response to
    a request from before the last seek is ignored. validate: True if the leader has changed, so that the position must
    be compared with the new leader's log (KIP-320). near: the nearby replica that the leader named (KIP-392), -1 for
    the leader itself. near_until: loop time at which to ask the leader again.
    """

    where: TopicPartition
    topic_id: Uuid = Uuid.ZERO
    position: int | None = None
    fetch_offset: int = 0
    epoch: int = -1
    leader_epoch: int = -1
    reset: OffsetSpec | None = None
    paused: bool = False
    validate: bool = False
    turn: int = 0
    high_watermark: int = -1
    log_start: int = -1
    near: int = -1
    near_until: float = 0.0
    not_before: float = 0.0
    chunks: deque[Chunk] = field(default_factory=deque)

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Continue at `offset`; drop fetched records."""
        self.position = self.fetch_offset = offset
        self.epoch = epoch
        self.reset = None
        self.validate = False
        self.turn += 1
        self.chunks.clear()
        self.not_before = 0.0

    def look_for(self, spec: OffsetSpec) -> None:
        """Look up the position before the next fetch."""
        self.position = None
        self.reset = spec
        self.validate = False
        self.turn += 1
        self.chunks.clear()
        self.not_before = 0.0

    @property
    def buffered(self) -> int:
        """Number of records fetched and not delivered."""
        return sum(len(chunk.records) - chunk.taken for chunk in self.chunks)

    def may_fetch(self, now: float) -> bool:
        """Return whether to fetch now: at most two responses are buffered."""
        return (
            self.position is not None
            and not self.paused
            and not self.validate
            and now >= self.not_before
            and len(self.chunks) < 2
            and not any(chunk.error for chunk in self.chunks)
        )

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return the next records, at most `count`, and advance the position. Raises the error that was found at the
        position, if there is one.
        """
        while self.chunks:
            chunk = self.chunks[0]
            records = chunk.take(count)
            if records:
                last = records[-1]
                self.position, self.epoch = last.offset + 1, last.leader_epoch
            if chunk.is_empty:
                if chunk.error is not None:
                    if not records:
                        raise chunk.error
                    return records
                self.position = max(self.position or 0, chunk.next_offset)
                self.chunks.popleft()
            if records:
                return records
        return []


class Positions:
    """All partitions of a consumer, in the order in which they deliver records."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._order: deque[TopicPartition] = deque()

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(list(self._states.values()))

    def get(self, where: TopicPartition) -> PartitionState | None:
        """Return the state of an assigned partition, or None."""
        return self._states.get(where)

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._states)

    def assign(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Replace the assignment. Partitions that stay assigned keep their state. Return the added partitions."""
        requested = list(dict.fromkeys(partitions))
        added = [PartitionState(where) for where in requested if where not in self._states]
        kept = {where: self._states[where] for where in requested if where in self._states}
        for where, state in self._states.items():
            if where not in kept:
                state.turn += 1
        self._states = {**kept, **{state.where: state for state in added}}
        self._order = deque(self._states)
        return added

    def of(self, where: TopicPartition) -> PartitionState:
        """Return the state of an assigned partition. Raises ValueError if it is not assigned."""
        state = self._states.get(where)
        if state is None:
            raise ValueError(f"{where} is not assigned to this consumer")
        return state

    def take(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records of all partitions that are not paused. To be fair, begin after the partition that was
        served last. Raise an error only if no record comes before it.
        """
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for where in list(self._order):
            state = self._states.get(where)
            if state is None or state.paused or not state.chunks:
                continue
            try:
                records = state.take(limit)
            except Exception:
                if found:
                    break  # The next call raises the error.
                raise
            if records:
                limit -= len(records)
                found[where] = records
                self._order.remove(where)
                self._order.append(where)
            if limit <= 0:
                break
        return found


class DeliveredRecords:
    """The records that the caller may not have finished. These are the records of the last poll or, in an iteration,
    only its last record (`last`).
    """

    def __init__(self) -> None:
        self.last: ConsumerRecord | None = None
        self._first: dict[TopicPartition, int] = {}

    def deliver(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        """Note the records that the caller gets now. This also means that the caller has finished the earlier records.
        """
        self.last, self._first = None, {where: records[0].offset for where, records in found.items()}

    def note_commit_or_seek(
        self, partition: TopicPartition, offset: int | None = None, position: int | None = None
    ) -> None:
        """Note that the caller has committed `offset`, where `position` is the position after all delivered records.
        With None, note that the caller has moved to another position in the partition."""
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

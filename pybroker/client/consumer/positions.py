"""Where a consumer stands in each of its partitions, and what it has fetched but not handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pybroker.client.cluster import TopicPartition
from pybroker.client.offsets import OffsetSpec
from pybroker.native import ConsumerRecord, Uuid


@dataclass(slots=True)
class Chunk:
    """Records of one answer. next_offset: after them, control batches counted. error: what stands behind them."""

    records: list[ConsumerRecord]
    next_offset: int
    error: Exception | None = None
    taken: int = 0

    def take(self, count: int) -> list[ConsumerRecord]:
        """Some of what is left."""
        if self.taken == 0 and count >= len(self.records):
            self.taken = len(self.records)
            return self.records
        part = self.records[self.taken : self.taken + count]
        self.taken += len(part)
        return part

    def next(self) -> ConsumerRecord | None:
        """The next one, if another follows it: the last one is taken by `PartitionState.take`, which tidies up."""
        if self.taken + 1 >= len(self.records):
            return None
        self.taken += 1
        return self.records[self.taken - 1]

    @property
    def is_empty(self) -> bool:
        """All are taken."""
        return self.taken >= len(self.records)


@dataclass(slots=True, eq=False)
class PartitionState:
    """One partition of a consumer.

    topic_id: the incarnation that the position belongs to; Uuid.ZERO where there are no ids. position: the next
    offset to hand out, None before it is known. fetch_offset: the next to ask for. epoch: of the record before the
    position, -1 unknown. reset: what to look for before reading on. turn: counts seeks; an answer to a question of an
    older turn is not for us. validate: the leader changed, so the position must be compared with its log (KIP-320).
    near: the replica near this client that the leader has named (KIP-392), -1 for the leader itself; near_until: when
    it is to be asked again, by the loop's clock.
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
        """Goes on at `offset`; what was fetched is dropped."""
        self.position = self.fetch_offset = offset
        self.epoch = epoch
        self.reset = None
        self.validate = False
        self.turn += 1
        self.chunks.clear()
        self.not_before = 0.0

    def look_for(self, spec: OffsetSpec) -> None:
        """Finds a position first."""
        self.position = None
        self.reset = spec
        self.validate = False
        self.turn += 1
        self.chunks.clear()
        self.not_before = 0.0

    @property
    def buffered(self) -> int:
        """Records fetched and not handed out."""
        return sum(len(chunk.records) - chunk.taken for chunk in self.chunks)

    def may_fetch(self, now: float) -> bool:
        """Whether a question for more makes sense now: one answer may wait, not two."""
        return (
            self.position is not None
            and not self.paused
            and not self.validate
            and now >= self.not_before
            and len(self.chunks) < 2
            and not any(chunk.error for chunk in self.chunks)
        )

    def take(self, count: int) -> list[ConsumerRecord]:
        """The next records, `count` at most; the position follows. Raises the error that stands at the position."""
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
    """All partitions of a consumer, in the order in which they are served."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._order: deque[TopicPartition] = deque()

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(list(self._states.values()))

    def get(self, where: TopicPartition) -> PartitionState | None:
        """The state of a partition that is assigned."""
        return self._states.get(where)

    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions."""
        return frozenset(self._states)

    def assign(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Exactly these from now on; those that stay keep their place. Gives the new ones."""
        wanted = list(dict.fromkeys(partitions))
        added = [PartitionState(where) for where in wanted if where not in self._states]
        kept = {where: self._states[where] for where in wanted if where in self._states}
        for where, state in self._states.items():
            if where not in kept:
                state.turn += 1
        self._states = {**kept, **{state.where: state for state in added}}
        self._order = deque(self._states)
        return added

    def of(self, where: TopicPartition) -> PartitionState:
        """The same. Raises ValueError for one that is not."""
        state = self._states.get(where)
        if state is None:
            raise ValueError(f"{where} is not assigned to this consumer")
        return state

    def take(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records of all partitions that are not paused, beginning after the one that was served last, so that
        each has its turn. Raises the error that stands before them.
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
                    break  # it is raised by the next one
                raise
            if records:
                limit -= len(records)
                found[where] = records
                self._order.remove(where)
                self._order.append(where)
            if limit <= 0:
                break
        return found

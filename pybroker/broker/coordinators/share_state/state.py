"""The share state of one group in one partition, and how writes change it. Pure values."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import msgspec

from pybroker.native import Uuid

NO_OFFSET = -1
"""The start offset of a partition that the group has not read yet. share.auto.offset.reset determines it when the group
first reads."""
NO_COUNT = -1


class DeliveryState(IntEnum):
    """Delivery states of records, numbered as Kafka stores them."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Never stored. After a load, the record is AVAILABLE."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Delivery has failed, and the record's dead letter is being written (KIP-1191)."""
    ARCHIVED = 4


TERMINAL = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


class Key(NamedTuple):
    """The key of a share state."""

    group: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text that is hashed to find the partition of `__share_group_state`, as in Kafka."""
        return f"{self.group}:{self.topic_id}:{self.partition}"


class StateBatch(NamedTuple):
    """Consecutive records with the same state."""

    first: int
    last: int
    state: DeliveryState
    deliveries: int
    """The delivery count."""


class ShareState(msgspec.Struct, frozen=True):
    """The share state of one group in one partition."""

    state_epoch: int
    """Increases when the group's offsets are reset."""
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    """Leader epoch of the partition; writes of leaders in earlier epochs are refused."""
    complete_count: int = NO_COUNT
    """Number of records at and above the start offset in a terminal state (KIP-1226); −1 if unknown."""
    batches: tuple[StateBatch, ...] = ()
    """In ascending order. Offsets that are in no batch are AVAILABLE and were never delivered."""


class Write(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


def changed(state: ShareState, write: Write) -> ShareState:
    """Return the state after a write."""
    start = max(state.start_offset, write.start_offset)
    return msgspec.structs.replace(
        state,
        leader_epoch=write.leader_epoch,
        start_offset=start,
        complete_count=write.complete_count,
        batches=combined(state.batches, write.batches, start),
    )


def combined(known: Iterable[StateBatch], later: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return the batches from `start` on. Where the two overlap, `later` replaces `known`. Neighbours with the same
    state are merged."""
    over = sorted(later)
    pieces: list[StateBatch] = list(over)
    for batch in known:
        first = batch.first
        for new in over:
            if new.last < first or new.first > batch.last:
                continue
            if new.first > first:
                pieces.append(batch._replace(first=first, last=new.first - 1))
            first = new.last + 1
        if first <= batch.last:
            pieces.append(batch._replace(first=first))
    merged: list[StateBatch] = []
    for piece in sorted(piece._replace(first=max(piece.first, start)) for piece in pieces if piece.last >= start):
        if merged and merged[-1].last + 1 == piece.first and merged[-1][2:] == piece[2:]:
            merged[-1] = merged[-1]._replace(last=piece.last)
        else:
            merged.append(piece)
    return tuple(merged)

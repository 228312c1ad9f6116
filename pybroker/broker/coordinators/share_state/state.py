"""What is kept of one share group in one partition, and how a write changes it. Pure values."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import msgspec

from pybroker.native import Uuid

NO_OFFSET = -1
"""The start offset of a partition that was initialized and not read yet: share.auto.offset.reset decides."""
NO_COUNT = -1


class DeliveryState(IntEnum):
    """What a record is to the group, by the numbers that Kafka stores."""

    AVAILABLE = 0
    ACQUIRED = 1
    """Never stored: whoever loads the state finds it available."""
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """It has failed, and a record of it is on its way to the dead letter queue (KIP-1191)."""
    ARCHIVED = 4


TERMINAL = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


class Key(NamedTuple):
    """Whose state."""

    group: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """What its shard is found by, as Kafka spells it."""
        return f"{self.group}:{self.topic_id}:{self.partition}"


class StateBatch(NamedTuple):
    """Records in a row that are the same to the group."""

    first: int
    last: int
    state: DeliveryState
    deliveries: int
    """How often they were delivered."""


class ShareState(msgspec.Struct, frozen=True):
    """As it is stored."""

    state_epoch: int
    """Grows when the group's offsets are set anew."""
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    """Of the partition: who led it before writes no more."""
    complete_count: int = NO_COUNT
    """Records from the start offset on that are done (KIP-1226); −1: not known."""
    batches: tuple[StateBatch, ...] = ()
    """Ascending; what lies between them is available and was never delivered."""


class Write(NamedTuple):
    """A change of a state."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


def changed(state: ShareState, write: Write) -> ShareState:
    """The state after a write."""
    start = max(state.start_offset, write.start_offset)
    return msgspec.structs.replace(
        state,
        leader_epoch=write.leader_epoch,
        start_offset=start,
        complete_count=write.complete_count,
        batches=combined(state.batches, write.batches, start),
    )


def combined(known: Iterable[StateBatch], later: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """What is known with `later` over it, from `start` on; neighbours that are the same become one."""
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
    for piece in sorted(one._replace(first=max(one.first, start)) for one in pieces if one.last >= start):
        if merged and merged[-1].last + 1 == piece.first and merged[-1][2:] == piece[2:]:
            merged[-1] = merged[-1]._replace(last=piece.last)
        else:
            merged.append(piece)
    return tuple(merged)

"""Records of `__share_group_state`, in Kafka's formats.

Key types: 0 ShareSnapshot, the whole state; 1 ShareUpdate, the changes of one write. An update applies to the snapshot
with the same snapshot epoch. Values are version 0. A tombstone of a snapshot deletes the state.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from pybroker.broker.coordinators.share_state.state import DeliveryState, Key, ShareState, StateBatch, Write
from pybroker.native import CodecError, decode_data, encode
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import decode_versioned, encode_versioned, split_version

SNAPSHOT, UPDATE = 0, 1
_NAMES = {SNAPSHOT: "ShareSnapshot", UPDATE: "ShareUpdate"}


def snapshot_key(key: Key) -> bytes:
    """Encode a ShareSnapshotKey."""
    return struct.pack(">h", SNAPSHOT) + encode(m.ShareSnapshotKey(*key), 0)


def update_key(key: Key) -> bytes:
    """Encode a ShareUpdateKey."""
    return struct.pack(">h", UPDATE) + encode(m.ShareUpdateKey(*key), 0)


def decode_key(data: bytes) -> tuple[int, Key] | None:
    """Return (type, key); None for an unknown type. Raise CodecError."""
    kind, content = split_version(data)
    if kind not in _NAMES:
        return None
    key = decode_data(f"{_NAMES[kind]}Key", 0, content)
    return kind, Key(key.group_id, key.topic_id, key.partition)


def snapshot_value(state: ShareState, snapshot_epoch: int, now_ms: int) -> bytes:
    """Encode a ShareSnapshotValue."""
    return encode_versioned(
        m.ShareSnapshotValue(
            snapshot_epoch=snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.complete_count,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=[m.ShareSnapshotValue_StateBatch(*batch) for batch in state.batches],
        ),
        0,
    )


def update_value(write: Write, snapshot_epoch: int) -> bytes:
    """Encode a ShareUpdateValue."""
    return encode_versioned(
        m.ShareUpdateValue(
            snapshot_epoch=snapshot_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.complete_count,
            state_batches=[m.ShareUpdateValue_StateBatch(*batch) for batch in write.batches],
        ),
        0,
    )


def decode_snapshot(data: bytes) -> tuple[int, ShareState]:
    """Return (snapshot epoch, state). Raise CodecError."""
    value = decode_versioned("ShareSnapshotValue", data)
    return value.snapshot_epoch, ShareState(
        value.state_epoch,
        value.start_offset,
        value.leader_epoch,
        value.delivery_complete_count,
        tuple(sorted(batches_of(value.state_batches))),
    )


def decode_update(data: bytes, state_epoch: int) -> tuple[int, Write]:
    """Return (snapshot epoch, change). Raise CodecError."""
    value = decode_versioned("ShareUpdateValue", data)
    return value.snapshot_epoch, Write(
        state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        tuple(batches_of(value.state_batches)),
    )


def batches_of(stored: Iterable[Any]) -> Iterable[StateBatch]:
    """Yield the state batches of a message. Raise CodecError for an unknown delivery state."""
    known = {int(state) for state in DeliveryState}
    for batch in stored:
        if batch.delivery_state not in known or batch.last_offset < batch.first_offset:
            raise CodecError(f"there is no batch {batch!r} of a share group")
        state = DeliveryState(batch.delivery_state)
        # Locks are not stored. Records that were acquired at the time of the write become available.
        if state is DeliveryState.ACQUIRED:
            state = DeliveryState.AVAILABLE
        yield StateBatch(batch.first_offset, batch.last_offset, state, batch.delivery_count)

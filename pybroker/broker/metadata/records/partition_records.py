"""Partition states as PartitionRecord (a whole state) and PartitionChangeRecord (the changed fields of a state).

Many partitions have one of a few distinct states. A PartitionRecord starts with partition and topic id. If the bytes
after these are equal in several records, they are encoded and decoded only once, and the partitions of the image share
one state object.
"""

from __future__ import annotations

import struct

from pybroker.broker.metadata.image import PartitionImage
from pybroker.broker.metadata.records.frames import (
    HEADER_BYTES,
    decode_record,
    encode_record,
    header_of,
)
from pybroker.broker.metadata.znodes import LogEnd
from pybroker.native import Uuid
from pybroker.protocol import messages as m

_INDEX = struct.Struct(">i")
_STATE_AT = HEADER_BYTES + _INDEX.size + 16
_NOWHERE = bytes(_INDEX.size + 16)
SAME_LEADER = SAME_EPOCH = -2
SAME_CONTROLLER_EPOCH = SAME_YOUNG = -1


class PartitionWriter:
    """Writes whole partition states."""

    def __init__(self) -> None:
        self._header = header_of("PartitionRecord")
        self._states: dict[PartitionImage, bytes] = {}

    def frame(self, topic_id: bytes, index: int, partition: PartitionImage) -> bytes:
        """Return the record of one partition."""
        state = self._states.get(partition)
        if state is None:
            state = self._states[partition] = _whole(partition)
        return self._header + _INDEX.pack(index) + topic_id + state


class PartitionReader:
    """Reads whole partition states."""

    def __init__(self) -> None:
        self._states: dict[bytes, PartitionImage] = {}

    def read(self, frame: bytes) -> tuple[bytes, int, PartitionImage]:
        """Return topic id, index and state of a PartitionRecord. Raises UnreadableRecordError."""
        header, state = frame[:HEADER_BYTES], frame[_STATE_AT:]
        key = header + state
        partition = self._states.get(key)
        if partition is None:
            partition = self._states[key] = _state_from(decode_record(header + _NOWHERE + state)[1])
        return frame[_STATE_AT - 16 : _STATE_AT], _INDEX.unpack_from(frame, HEADER_BYTES)[0], partition


def _whole(partition: PartitionImage) -> bytes:
    record = m.PartitionRecord(
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.state_version,
        controller_epoch=partition.controller_epoch,
        suspect=[m.PartitionRecord_LogEnd(*end) for end in partition.suspect],
        young=partition.young,
        offline=list(partition.offline),
    )
    return encode_record(record)[_STATE_AT:]


def _state_from(record: m.PartitionRecord) -> PartitionImage:
    return PartitionImage(
        tuple(record.replicas),
        record.leader,
        record.leader_epoch,
        tuple(record.isr),
        record.controller_epoch,
        record.partition_epoch,
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(LogEnd(end.broker_id, end.epoch, end.end) for end in record.suspect),
        record.young,
        tuple(record.offline),
    )


def change_frame(topic_id: Uuid, index: int, old: PartitionImage, new: PartitionImage) -> bytes:
    """Return the record of a state's changed fields. As in Kafka, a record that contains a leader increments the leader
    epoch, and every record increments the partition epoch. If an epoch changes in another way, a tagged field contains
    it."""
    leads = (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch)
    epoch, version = old.leader_epoch + leads, old.state_version + 1
    record = m.PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_if_new(old.isr, new.isr),
        leader=new.leader if leads else SAME_LEADER,
        replicas=_if_new(old.replicas, new.replicas),
        removing_replicas=_if_new(old.removing_replicas, new.removing_replicas),
        adding_replicas=_if_new(old.adding_replicas, new.adding_replicas),
        controller_epoch=(
            SAME_CONTROLLER_EPOCH if new.controller_epoch == old.controller_epoch else new.controller_epoch
        ),
        suspect=(
            None
            if new.suspect == old.suspect
            else [m.PartitionChangeRecord_LogEnd(*end) for end in new.suspect]
        ),
        young=SAME_YOUNG if new.young == old.young else int(new.young),
        offline=_if_new(old.offline, new.offline),
        leader_epoch=SAME_EPOCH if new.leader_epoch == epoch else new.leader_epoch,
        partition_epoch=SAME_EPOCH if new.state_version == version else new.state_version,
    )
    return encode_record(record)


def _if_new(old: tuple[int, ...], new: tuple[int, ...]) -> list[int] | None:
    return None if new == old else list(new)


def changed_state(record: m.PartitionChangeRecord, old: PartitionImage) -> PartitionImage:
    """Return the state after a record that `change_frame` has written."""
    leads = record.leader != SAME_LEADER
    return PartitionImage(
        old.replicas if record.replicas is None else tuple(record.replicas),
        record.leader if leads else old.leader,
        old.leader_epoch + leads if record.leader_epoch == SAME_EPOCH else record.leader_epoch,
        old.isr if record.isr is None else tuple(record.isr),
        old.controller_epoch if record.controller_epoch == SAME_CONTROLLER_EPOCH else record.controller_epoch,
        old.state_version + 1 if record.partition_epoch == SAME_EPOCH else record.partition_epoch,
        old.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
        old.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
        (
            old.suspect
            if record.suspect is None
            else tuple(LogEnd(end.broker_id, end.epoch, end.end) for end in record.suspect)
        ),
        old.young if record.young == SAME_YOUNG else bool(record.young),
        old.offline if record.offline is None else tuple(record.offline),
    )

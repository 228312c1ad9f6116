"""Reads the metadata log in a broker's directory without changing it. The broker may run."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.deltas import from_records
from pybroker.broker.metadata.records.snapshots import image_from_records
from pybroker.broker.offline.adopt.kafka_batches import MalformedBatchError, heads, values
from pybroker.errors import StartError
from pybroker.native import RecordDecoder, Uuid

_BASE_OFFSET = _MAX_TIMESTAMP = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 12
_MAX_TIMESTAMP_AT = 35
"""Positions in the header of a record batch of format 2."""


class LogContent(NamedTuple):
    """The metadata at an offset of the log. The image has the offset, and the epoch of the record before it."""

    image: ClusterImage
    timestamp_ms: int
    """Append time of the last record; -1 if only a snapshot has it."""


class ReplacedFilesError(Exception):
    """The running broker has replaced files of the log since this program listed them."""


def read_image(log_dir: Path) -> ClusterImage:
    """Return the metadata at the end of the log. The last records may not have reached a majority. Raises
    StartError."""
    try:
        return read_log(log_dir).image
    except ReplacedFilesError as problem:
        raise StartError(str(problem)) from None


def read_log(log_dir: Path, until: int | None = None) -> LogContent:
    """Read the log up to an offset; None: up to its end. The newest snapshot counts although it may end later. Raises
    StartError, ReplacedFilesError."""
    folder = log_dir / METADATA_LOG_DIRECTORY
    if not folder.is_dir():
        raise StartError(f"{folder} does not exist")
    try:
        image, timestamp_ms = snapshot_image(folder), -1
        for batch in _batches(folder):
            if batch.end <= image.offset:
                continue
            if until is not None and batch.end > until:
                break
            if batch.base > image.offset:
                raise ReplacedFilesError(f"{folder} lacks the records from offset {image.offset} to {batch.base}")
            changed = image.apply(from_records(image, batch.frames)) if batch.frames else image
            image = msgspec.structs.replace(changed, offset=batch.end, controller_epoch=batch.epoch)
            timestamp_ms = batch.timestamp_ms
    except FileNotFoundError as problem:
        raise ReplacedFilesError(f"{problem.filename} does not exist any more") from None
    except (MalformedBatchError, ValueError) as problem:
        raise StartError(f"the metadata log in {folder} cannot be read: {problem}") from None
    return LogContent(image, timestamp_ms)


def snapshot_image(folder: Path) -> ClusterImage:
    """Return the metadata of the newest snapshot with records. Raises ValueError or MalformedBatchError."""
    for snapshot in sorted(folder.glob("*.checkpoint"), reverse=True):
        frames = [value for _, value in values(snapshot)]
        if frames:
            end, epoch = map(int, snapshot.stem.split("-"))
            return msgspec.structs.replace(image_from_records([frames]), offset=end, controller_epoch=epoch)
    return ClusterImage.initial(0)


class _Batch(NamedTuple):
    base: int
    end: int
    epoch: int
    timestamp_ms: int
    frames: list[bytes]
    """Empty if the batch has only control records."""


def _batches(folder: Path) -> Iterator[_Batch]:
    """Yield the batches of all segments in order. One batch is one change of the metadata."""
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        for head in heads(data):
            batch = data[head.position : head.position + head.size]
            decoded = RecordDecoder().decode(batch, 0, topic=METADATA_LOG_DIRECTORY, topic_id=Uuid.ZERO, partition=0)
            if decoded.error is not None:
                raise MalformedBatchError(f"{segment.name}: {decoded.error}")
            frames = [record.value for record in decoded.records if record.value is not None]
            (base,) = _BASE_OFFSET.unpack_from(batch, 0)
            (epoch,) = _LEADER_EPOCH.unpack_from(batch, _LEADER_EPOCH_AT)
            (timestamp_ms,) = _MAX_TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_AT)
            yield _Batch(base, decoded.next_offset, epoch, timestamp_ms, frames)

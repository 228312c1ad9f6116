"""The metadata log in the directory of a stopped broker, read without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from pybroker.broker.admin.topic_names import METADATA_LOG_DIRECTORY
from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.records.deltas import from_records
from pybroker.broker.metadata.records.snapshots import image_from_records
from pybroker.broker.offline.adopt.kafka_batches import MalformedBatchError, heads, values
from pybroker.errors import StartError
from pybroker.native import RecordDecoder, Uuid


def read_image(log_dir: Path) -> ClusterImage:
    """Return the metadata at the end of the log. The last records may not have reached a majority. Raises
    StartError."""
    folder = log_dir / METADATA_LOG_DIRECTORY
    if not folder.is_dir():
        raise StartError(f"{folder} does not exist")
    try:
        image = snapshot_image(folder)
        for segment in sorted(folder.glob("*.log")):
            for end, frames in _batches(segment):
                if frames and end > image.offset:
                    changed = image.apply(from_records(image, frames))
                    image = msgspec.structs.replace(changed, offset=end)
    except (MalformedBatchError, ValueError) as problem:
        raise StartError(f"the metadata log in {folder} cannot be read: {problem}") from None
    return image


def snapshot_image(folder: Path) -> ClusterImage:
    """Return the metadata of the newest snapshot with records. Raises ValueError or MalformedBatchError."""
    for snapshot in sorted(folder.glob("*.checkpoint"), reverse=True):
        frames = [value for _, value in values(snapshot)]
        if frames:
            end = int(snapshot.name.partition("-")[0])
            return msgspec.structs.replace(image_from_records([frames]), offset=end)
    return ClusterImage.initial(0)


def _batches(segment: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the end and the records of each batch. One batch is one change of the metadata."""
    data = segment.read_bytes()
    for head in heads(data):
        batch = data[head.position : head.position + head.size]
        decoded = RecordDecoder().decode(batch, 0, topic=METADATA_LOG_DIRECTORY, topic_id=Uuid.ZERO, partition=0)
        if decoded.error is not None:
            raise MalformedBatchError(f"{segment.name}: {decoded.error}")
        yield decoded.next_offset, [record.value for record in decoded.records if record.value is not None]

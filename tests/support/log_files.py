"""Reads the log directories of a stopped broker without any of pybroker's code: segments of record batches, checkpoints
and partition.metadata."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, two timestamps, producer id and epoch,
first sequence, record count."""
FRAME = 12
"""Size of the base offset and the length field: the length counts the bytes after them."""
COMPRESSION = 7


class Batch(NamedTuple):
    """A record batch in a segment."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    raw: bytes


class Record(NamedTuple):
    """A record of an uncompressed batch."""

    offset: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class ReplicaLog:
    """One replica's log."""

    directory: Path
    topic: str
    topic_id: str
    """32 hexadecimal digits."""
    partition: int
    high_watermark: int
    batches: tuple[Batch, ...]

    @property
    def start(self) -> int:
        """The first offset in the log; 0 if the log is empty."""
        return self.batches[0].base_offset if self.batches else 0

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def records(self) -> Iterator[Record]:
        """Yield all records in the order of the file."""
        for batch in self.batches:
            yield from _records(batch)

    def raw(self, start: int, end: int) -> bytes:
        """Return the bytes of the batches from offset `start` to before `end`."""
        return b"".join(one.raw for one in self.batches if one.base_offset >= start and one.last_offset < end)


def replica_logs(log_dir: Path) -> list[ReplicaLog]:
    """Return every partition in a log directory, without staged ones."""
    watermarks = _checkpoint(log_dir / "replication-offset-checkpoint")
    found = []
    for directory in sorted(log_dir.iterdir()):
        metadata = directory / "partition.metadata"
        if not metadata.is_file():
            continue
        topic, _, partition = directory.name.rpartition("-")
        found.append(
            ReplicaLog(
                directory,
                topic,
                _topic_id(metadata),
                int(partition),
                watermarks.get((topic, int(partition)), 0),
                tuple(_batches(directory)),
            )
        )
    return found


def _topic_id(file: Path) -> str:
    text = file.read_text().split("topic_id: ")[1].strip()
    return base64.urlsafe_b64decode(text + "==").hex()


def _checkpoint(file: Path) -> dict[tuple[str, int], int]:
    if not file.exists():
        return {}
    rows = [line.rsplit(" ", 2) for line in file.read_text().splitlines()[2:]]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def _batches(directory: Path) -> Iterator[Batch]:
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        at = 0
        while len(data) - at >= HEADER.size:
            base, length, epoch, magic, _, _, last, _, _, producer, producer_epoch, sequence, _ = HEADER.unpack_from(
                data, at
            )
            end = at + FRAME + length
            if magic != 2 or end > len(data):
                raise ValueError(f"{segment}: no whole record batch at byte {at}")
            yield Batch(base, base + last, epoch, producer, producer_epoch, sequence, data[at:end])
            at = end
        if at != len(data):
            raise ValueError(f"{segment}: {len(data) - at} bytes behind the last record batch")


def _records(batch: Batch) -> Iterator[Record]:
    data = batch.raw
    *_, attributes, _, _, _, _, _, _, count = HEADER.unpack_from(data)
    if attributes & COMPRESSION:
        raise ValueError(f"the batch at offset {batch.base_offset} is compressed")
    at = HEADER.size
    for _ in range(count):
        size, at = _varint(data, at)
        end = at + size
        _, at = _varint(data, at + 1)
        delta, at = _varint(data, at)
        key, at = _text(data, at)
        value, at = _text(data, at)
        yield Record(batch.base_offset + delta, batch.leader_epoch, key, value)
        at = end


def _text(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at

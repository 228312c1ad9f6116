"""Record batches in files, as far as adopting needs them: which format, which records (uncompressed batches only: the
metadata log is never compressed).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pybroker.native import crc32c
from pybroker.protocol.primitives import BytesReader, Malformed

OVERHEAD = 12
"""Base offset and length, which the length does not count."""
HEADER = 61
MAGIC_AT = 16
CRC_AT = 17
BATCH_BYTES_MAX = 1 << 30
_HEAD = struct.Struct(">qi")
_ATTRIBUTES = struct.Struct(">h")
_COUNT = struct.Struct(">i")
COMPRESSION, CONTROL = 0x07, 0x20


class Head(NamedTuple):
    """One batch: where, how long, in which message format."""

    position: int
    base_offset: int
    size: int
    magic: int


def heads(data: bytes | mmap.mmap) -> Iterator[Head]:
    """The batches of a segment, up to the first that is cut off (an unfinished append)."""
    at, end = 0, len(data)
    while at + OVERHEAD + 5 <= end:
        base_offset, length = _HEAD.unpack_from(data, at)
        size = length + OVERHEAD
        if length < 5 or size > BATCH_BYTES_MAX or at + size > end:
            return
        yield Head(at, base_offset, size, data[at + MAGIC_AT])
        at += size


def formats(segment: Path) -> set[int]:
    """The message formats in a segment."""
    if segment.stat().st_size == 0:
        return set()
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return {head.magic for head in heads(data)}


def values(segment: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of the records in an uncompressed segment or snapshot. Raises Malformed for damage."""
    data = segment.read_bytes()
    for head in heads(data):
        if head.magic != 2:
            raise Malformed(f"{segment}: message format {head.magic}")
        batch = data[head.position : head.position + head.size]
        if len(batch) < HEADER or crc32c(batch[CRC_AT + 4 :]) != struct.unpack_from(">I", batch, CRC_AT)[0]:
            raise Malformed(f"{segment}: the batch at offset {head.base_offset} is damaged")
        attributes = _ATTRIBUTES.unpack_from(batch, CRC_AT + 4)[0]
        if attributes & CONTROL:
            continue
        if attributes & COMPRESSION:
            raise Malformed(f"{segment}: the batch at offset {head.base_offset} is compressed")
        reader = BytesReader(batch[HEADER:])
        for _ in range(_COUNT.unpack_from(batch, HEADER - 4)[0]):
            record = BytesReader(reader.take(reader.varlong()))
            record.take(1)
            record.varlong()
            offset = head.base_offset + record.varlong()
            key = record.varlong()
            record.take(max(0, key))
            size = record.varlong()
            if size >= 0:
                yield offset, record.take(size)

"""Reads from files the parts of record batches that `adopt` needs: message formats and record values."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pybroker.native import RecordDecoder, Uuid

OVERHEAD = 12
"""Bytes of base offset and length. The length field does not include them."""
MAGIC_AT = 16
MAGIC = 2
BATCH_BYTES_MAX = 1 << 30
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8


class MalformedBatchError(Exception):
    """The bytes violate their format."""


class Head(NamedTuple):
    """Position, length and message format of one batch."""

    position: int
    size: int
    magic: int


def heads(data: bytes | mmap.mmap) -> Iterator[Head]:
    """Yield the batches of a segment, up to the first incomplete batch (an unfinished append)."""
    at, end = 0, len(data)
    while at + MAGIC_AT < end:
        (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
        size = length + OVERHEAD
        if size <= MAGIC_AT or size > BATCH_BYTES_MAX or at + size > end:
            return
        yield Head(at, size, data[at + MAGIC_AT])
        at += size


def formats(segment: Path) -> set[int]:
    """Return the message formats in a segment."""
    if segment.stat().st_size == 0:
        return set()
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return {head.magic for head in heads(data)}


def values(segment: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, value) of the records in a segment or snapshot. Raises Malformed if the bytes are damaged."""
    data = segment.read_bytes()
    decoded = RecordDecoder().decode(data, 0, topic=segment.parent.name, topic_id=Uuid.ZERO, partition=0)
    for record in decoded.records:
        if record.value is not None:
            yield record.offset, record.value
    if decoded.error is not None:
        raise MalformedBatchError(f"{segment}: the batch at offset {decoded.next_offset} is damaged: {decoded.error}")

"""The frame of a metadata record (KIP-631): frame version, API key and version as unsigned varints, then the record.

pybroker uses Kafka's records where they can express a change. Fields that Kafka does not have are tagged fields of the
same record, numbered from 10000. If Kafka has no record for the subject, they are fields of NoOpRecord. Kafka's tools
print such records without an error. Version and fields of each record:
`native/protocol/schema/stored/metadata_log.schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pybroker.native import CodecError, decode_data, encode

FRAME_VERSION = 1
HEADER_BYTES = 3
_VARINT_OF_A_BYTE_MAX = 0x7F

WRITTEN: Mapping[str, tuple[int, int]] = {
    "RegisterBrokerRecord": (0, 0),
    "UnregisterBrokerRecord": (1, 0),
    "TopicRecord": (2, 0),
    "PartitionRecord": (3, 0),
    "ConfigRecord": (4, 0),
    "PartitionChangeRecord": (5, 0),
    "RemoveTopicRecord": (9, 0),
    "DelegationTokenRecord": (10, 0),
    "UserScramCredentialRecord": (11, 0),
    "FeatureLevelRecord": (12, 0),
    "ClientQuotaRecord": (14, 0),
    "ProducerIdsRecord": (15, 0),
    "BrokerRegistrationChangeRecord": (17, 1),
    "AccessControlEntryRecord": (18, 0),
    "RemoveAccessControlEntryRecord": (19, 0),
    "NoOpRecord": (20, 0),
    "RemoveUserScramCredentialRecord": (22, 0),
    "RemoveDelegationTokenRecord": (26, 0),
}
"""The records of images and deltas: name → (API key, version that this release writes)."""

_HEADERS = {name: bytes((FRAME_VERSION, *numbers)) for name, numbers in WRITTEN.items()}
_NAMES = {api_key: name for name, (api_key, _) in WRITTEN.items()}


class UnreadableRecordError(ValueError):
    """The bytes are not a metadata record, have a newer version, or contradict the image."""


class RecordFrame(NamedTuple):
    """The numbers in a record's frame, and the record."""

    api_key: int
    version: int
    content: bytes


def header_of(name: str) -> bytes:
    """Return the bytes of the frame, which precede a record with that name."""
    return _HEADERS[name]


def encode_record(record: object) -> bytes:
    """Return a record of `pybroker.protocol.messages` in its frame."""
    name = type(record).__name__
    return _HEADERS[name] + encode(record, WRITTEN[name][1])


def split_frame(frame: bytes) -> RecordFrame:
    """Separate a record from its frame. In all known records, each of the three numbers takes one byte. Raises
    UnreadableRecordError if the bytes are not a frame."""
    if len(frame) < HEADER_BYTES or max(frame[:HEADER_BYTES]) > _VARINT_OF_A_BYTE_MAX:
        raise UnreadableRecordError(f"a metadata record that begins with {frame[:HEADER_BYTES].hex() or 'nothing'}")
    frame_version, api_key, version = frame[:HEADER_BYTES]
    if frame_version != FRAME_VERSION:
        raise UnreadableRecordError(f"a metadata record with frame version {frame_version}")
    return RecordFrame(api_key, version, frame[HEADER_BYTES:])


def decode_record(frame: bytes) -> tuple[str, Any]:
    """Return the name of a record, and the record. Raises UnreadableRecordError."""
    api_key, version, content = split_frame(frame)
    name = _NAMES.get(api_key)
    if name is None:
        raise UnreadableRecordError(f"metadata records of type {api_key} are unknown to this version of pybroker")
    try:
        return name, decode_data(name, version, content)
    except CodecError as problem:
        raise UnreadableRecordError(f"a metadata record of type {api_key}: {problem}") from None

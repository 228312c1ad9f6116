"""Values that start with their version: values in internal topics, and metadata of group members."""

from __future__ import annotations

import struct
from typing import Any

from pybroker.native import CodecError, decode_data, encode

_VERSION = struct.Struct(">h")


def encode_versioned(message: object, version: int) -> bytes:
    """Encode a message class of `pybroker.protocol.messages`, with its version before it. Raises CodecError."""
    return _VERSION.pack(version) + encode(message, version)


def split_version(data: bytes) -> tuple[int, bytes]:
    """Return the version and the bytes after it. Raises CodecError."""
    if len(data) < _VERSION.size:
        raise CodecError("missing version prefix")
    return _VERSION.unpack_from(data)[0], data[_VERSION.size :]


def decode_versioned(name: str, data: bytes) -> Any:
    """Decode a message of the class `name`, whose version is known. Raises CodecError for an unknown version."""
    version, content = split_version(data)
    return decode_data(name, version, content)

"""Content that carries its version in front: values of internal topics, what members of a group exchange."""

from __future__ import annotations

import struct
from typing import Any

from pybroker.native import CodecError, decode_data, encode

_VERSION = struct.Struct(">h")


def encode_versioned(message: object, version: int) -> bytes:
    """A data class of `pybroker.protocol.messages` with its version in front. Raises CodecError."""
    return _VERSION.pack(version) + encode(message, version)


def split_version(data: bytes) -> tuple[int, bytes]:
    """The version, and what follows it. Raises CodecError."""
    if len(data) < _VERSION.size:
        raise CodecError("there is no version in front")
    return _VERSION.unpack_from(data)[0], data[_VERSION.size :]


def decode_versioned(name: str, data: bytes) -> Any:
    """The message of the class `name`, in a version that is known. Raises CodecError."""
    version, content = split_version(data)
    return decode_data(name, version, content)

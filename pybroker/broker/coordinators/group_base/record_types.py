"""Record types of consumer, share and streams groups in `__consumer_offsets`, in Kafka's formats.

A key is a 16-bit type, then the group id and, for most types, a member id or a regular expression.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pybroker.broker.coordinators.group_base.epoch_kind import Records
from pybroker.native import decode_data, encode
from pybroker.protocol import messages as m
from pybroker.protocol.versioned import decode_versioned


class RecordTypes:
    """The record types of one group type. `names`: type → Kafka's name of the record, without Key or Value."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names

    def __contains__(self, kind: int) -> bool:
        return kind in self._names

    def encode_key(self, kind: int, *parts: str) -> bytes:
        """Encode a key of this type."""
        return struct.pack(">h", kind) + encode(getattr(m, f"{self._names[kind]}Key")(*parts), 0)

    def decode_key(self, kind: int, content: bytes) -> tuple[str, str]:
        """Decode a key without its type. Return (group, member or regular expression; empty if the key has neither).

        Raise CodecError.
        """
        key = decode_data(f"{self._names[kind]}Key", 0, content)
        return str(key.group_id), str(getattr(key, "regular_expression", None) or getattr(key, "member_id", ""))

    def decode_value(self, kind: int, value: bytes) -> Any:
        """Decode a value of this type. Raise CodecError."""
        return decode_versioned(f"{self._names[kind]}Value", value)


def with_last(records: Records, *last: bytes) -> Records:
    """Return the records without those of the keys `last`, and then tombstones of these keys, in this order."""
    return {key: value for key, value in records.items() if key not in last} | dict.fromkeys(last)


class GroupReplay:
    """Collects the latest records of one group during a replay."""

    __slots__ = ("_alone", "_named", "_types")

    def __init__(self, types: RecordTypes, *named: int) -> None:
        """`named`: the types with one record for each member or regular expression. Each other type has one record per
        group."""
        self._types = types
        self._alone: dict[int, Any] = {}
        self._named: dict[int, dict[str, Any]] = {kind: {} for kind in named}

    def take(self, kind: int, name: str, value: bytes | None) -> None:
        """Apply one record. Raise CodecError."""
        decoded = None if value is None else self._types.decode_value(kind, value)
        place: dict[Any, Any] = self._named.get(kind, self._alone)
        key: object = name if kind in self._named else kind
        if decoded is None:
            place.pop(key, None)
        else:
            place[key] = decoded

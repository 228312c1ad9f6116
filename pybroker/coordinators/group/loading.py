"""What is alive in an offsets partition once all its records are read. Filled in a worker thread, off the loop."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pybroker.coordinators.group.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from pybroker.native import CodecError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Loaded:
    """The last value of every key. Implements the shards' Replay."""

    offsets: dict[OffsetKey, tuple[int, OffsetValue]] = field(default_factory=dict)
    """Key → (offset of its record, value)."""
    groups: dict[str, GroupValue] = field(default_factory=dict)
    records: int = 0
    damaged: int = 0
    """Records that could not be read; passed over."""

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Takes one record; without a value it buries its key."""
        self.records += 1
        if key is None:
            self.damaged += 1
            return
        try:
            parsed = decode_key(key)
            if isinstance(parsed, OffsetKey):
                if value is None:
                    self.offsets.pop(parsed, None)
                else:
                    self.offsets[parsed] = (offset, decode_offset_value(value))
            elif isinstance(parsed, GroupKey):
                if value is None:
                    self.groups.pop(parsed.group, None)
                else:
                    self.groups[parsed.group] = decode_group_value(value)
        except CodecError as problem:
            self.damaged += 1
            log.warning("record %d of the offsets topic is passed over: %s", offset, problem)

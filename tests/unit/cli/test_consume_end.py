"""When `pybroker consume --group` has read everything."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.cli.records.consume import _is_read
from pybroker.client import TopicPartition

WHERE = TopicPartition("t", 0)


class PlayedConsumer:
    """A fake consumer at offset 5: the last Fetch response had a high watermark, and ListOffsets returns the end."""

    def __init__(self, high_watermark: int, end: int) -> None:
        self._high_watermark, self._end = high_watermark, end

    def assignment(self) -> set[TopicPartition]:
        return {WHERE}

    def lag(self, _: TopicPartition) -> int:
        return max(0, self._high_watermark - 5)

    def position(self, _: TopicPartition) -> int:
        return 5

    def end_offsets(self, _: Any) -> dict[TopicPartition, int]:
        return {WHERE: self._end}


@pytest.mark.parametrize(("high_watermark", "end", "read"), [(5, 5, True), (6, 6, False), (3, 6, False)])
def test_a_group_has_read_all_when_its_positions_are_at_the_ends(high_watermark: int, end: int, read: bool) -> None:
    """A new leader's high watermark may be behind for a moment (KIP-207)."""
    consumer: Any = PlayedConsumer(high_watermark, end)
    assert _is_read(consumer) is read

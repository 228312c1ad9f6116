"""What DescribeLogDirs shows: every log directory of this broker and the partitions in it (KIP-113, KIP-827)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pybroker.native import LogDirInfo


class NativeLogDirs(Protocol):
    """Where the facts are."""

    def describe_log_dirs(self) -> list[LogDirInfo]:
        """Blocks: it asks the file systems."""
        ...


class LogDirAdmin:
    """Describes log directories without stopping the loop."""

    def __init__(self, native: NativeLogDirs) -> None:
        self._native = native

    async def describe(
        self, wanted: Mapping[str, set[int]] | None
    ) -> list[tuple[LogDirInfo, dict[str, list[tuple[int, int, int]]]]]:
        """Each directory with topic → [(partition, bytes, offset lag)], of all partitions or of the wanted
        ones; sorted.
        """
        directories = await asyncio.get_running_loop().run_in_executor(None, self._native.describe_log_dirs)
        shown = []
        for directory in directories:
            topics: dict[str, list[tuple[int, int, int]]] = {}
            for one in directory.partitions:
                if wanted is None or one.partition in wanted.get(one.topic, ()):
                    topics.setdefault(one.topic, []).append((one.partition, one.size_bytes, one.offset_lag))
            shown.append((directory, {name: sorted(topics[name]) for name in sorted(topics)}))
        return shown

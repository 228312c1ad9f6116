"""What DescribeLogDirs shows: every log directory of this broker and the partitions in it (KIP-113, KIP-827)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from pybroker.native import LogDirInfo, Uuid
from pybroker.protocol.error_codes import ErrorCode


class LogDirs(Protocol):
    """Where the facts are (`NativeLogDirs`)."""

    def describe(self) -> list[LogDirInfo]:
        """Blocks: it asks the file systems."""
        ...

    def move_partition(self, topic_id: Uuid, partition: int, log_dir: str) -> int:
        """Orders a move."""
        ...


class LogDirAdmin:
    """Describes log directories, and moves partitions between them, without stopping the loop."""

    def __init__(self, native: LogDirs, topic_id: Callable[[str], Uuid | None] = lambda name: None) -> None:
        self._native = native
        self._topic_id = topic_id

    async def move(self, topic: str, partition: int, log_dir: str) -> int:
        """Orders a move to the directory with that absolute path; the error code."""
        topic_id = self._topic_id(topic)
        if topic_id is None or partition < 0:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._native.move_partition, topic_id, partition, log_dir)

    async def describe(
        self, wanted: Mapping[str, set[int]] | None
    ) -> list[tuple[LogDirInfo, dict[str, list[tuple[int, int, int, bool]]]]]:
        """Each directory with topic → [(partition, bytes, offset lag, still a copy)], of all partitions or of the
        wanted ones; sorted.
        """
        directories = await asyncio.get_running_loop().run_in_executor(None, self._native.describe)
        shown = []
        for directory in directories:
            topics: dict[str, list[tuple[int, int, int, bool]]] = {}
            for one in directory.partitions:
                if wanted is None or one.partition in wanted.get(one.topic, ()):
                    topics.setdefault(one.topic, []).append(
                        (one.partition, one.size_bytes, one.offset_lag, one.is_future)
                    )
            shown.append((directory, {name: sorted(topics[name]) for name in sorted(topics)}))
        return shown

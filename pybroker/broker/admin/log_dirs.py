"""DescribeLogDirs: every log directory of this broker and its partitions (KIP-113, KIP-827)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.config import BrokerConfig
from pybroker.native import LogDirInfo, Uuid
from pybroker.protocol.error_codes import ErrorCode

_NO_TOPIC = Uuid(0, 1)
"""An id that Kafka reserves and that no topic has."""


class LogDirs(Protocol):
    """The native part of log directories (`NativeLogDirs`)."""

    def describe(self) -> list[LogDirInfo]:
        """Return all log directories. Blocks: it reads the file systems."""
        ...

    def move_partition(self, topic_id: Uuid, partition: int, log_dir: str) -> int:
        """Start a move and return an error code."""
        ...


class LogDirAdmin:
    """Describes log directories and moves partitions between them, without blocking the event loop."""

    def __init__(self, native: LogDirs, config: BrokerConfig, view: ClusterView) -> None:
        self._native = native
        self._config = config
        self._view = view

    def is_cordoned(self, path: str) -> bool:
        """Return whether a log directory accepts no new partitions (KIP-1066)."""
        return path in self._config.cordoned_log_dirs

    async def move(self, topic_id: Uuid | None, partition: int, log_dir: str) -> int:
        """Start a move to the log directory with this absolute path, and return an error code. `topic_id` None: the
        topic is unknown."""
        image = self._view.image
        topic = None if topic_id is None else image.topics.get(image.names.get(topic_id, ""))
        exists = topic is not None and 0 <= partition < len(topic.partitions)
        if topic_id is None or not exists:
            # Check the directory first, as Kafka does.
            topic_id, partition = _NO_TOPIC, 0
        loop = asyncio.get_running_loop()
        code = await loop.run_in_executor(None, self._native.move_partition, topic_id, partition, log_dir)
        unknown = not exists and code == ErrorCode.REPLICA_NOT_AVAILABLE
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else code

    async def describe(
        self, requested: Mapping[str | Uuid, set[int]] | None
    ) -> list[tuple[LogDirInfo, dict[tuple[str, Uuid], list[tuple[int, int, int, bool]]]]]:
        """Return each log directory with (topic, its id) → [(partition, bytes, offset lag, whether it is a future
        replica)], sorted by partition. `requested`: topic name or id → partitions; None: all."""
        directories = await asyncio.get_running_loop().run_in_executor(None, self._native.describe)
        shown = []
        for directory in directories:
            topics: dict[tuple[str, Uuid], list[tuple[int, int, int, bool]]] = {}
            for partition in directory.partitions:
                if (
                    requested is None
                    or partition.partition in requested.get(partition.topic, ())
                    or partition.partition in requested.get(partition.topic_id, ())
                ):
                    topics.setdefault((partition.topic, partition.topic_id), []).append(
                        (partition.partition, partition.size_bytes, partition.offset_lag, partition.is_future)
                    )
            by_name = sorted(topics, key=lambda topic: topic[0])
            shown.append((directory, {topic: sorted(topics[topic]) for topic in by_name}))
        return shown

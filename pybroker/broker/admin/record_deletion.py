"""DeleteRecords: delete records from the start of partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from pybroker.broker.metadata.metadata_cache import CachedTopic, MetadataCache
from pybroker.broker.replicas.replica_manager import ReplicaManager
from pybroker.native import NativeBroker, NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode

FLUSH_WAIT_MAX_S = 5.0
"""Longest wait of one request for flushes when the disk is slow."""


class DeletedRecords(msgspec.Struct, frozen=True):
    """Outcome of one partition; the low watermark is -1 with an error."""

    error_code: int
    low_watermark: int


class RecordAdmin:
    """Deletes records of partitions that this broker leads."""

    def __init__(self, native: NativeBroker, cache: MetadataCache, replicas: ReplicaManager) -> None:
        self._native = native
        self._cache = cache
        self._replicas = replicas

    async def delete(self, requested: Sequence[tuple[str, int, int]], timeout_s: float) -> list[DeletedRecords]:
        """Delete the records of each (topic, partition, offset or -1) and return the results, in order. All disk access
        happens in one call in a thread. Wait at most `timeout_s` seconds for the flush of records that were
        acknowledged with acks=1."""
        topics = {name: self._topic(name) for name in dict.fromkeys(name for name, _, _ in requested)}
        resolved = [(_resolve(topics[name], partition), partition, offset) for name, partition, offset in requested]
        return await asyncio.get_running_loop().run_in_executor(None, self._delete, resolved, timeout_s)

    def _topic(self, name: str) -> CachedTopic | int:
        """Return the topic, or the error code for all its partitions."""
        topic = self._cache.topic(name)
        if topic is None:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.internal:
            return int(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if "delete" not in self._replicas.resolved_config(topic.topic_id)["cleanup.policy"]:
            return int(ErrorCode.POLICY_VIOLATION)
        return topic

    def _delete(self, requested: Sequence[tuple[Uuid | int, int, int]], timeout_s: float) -> list[DeletedRecords]:
        deadline = time.monotonic() + min(timeout_s, FLUSH_WAIT_MAX_S)
        return [self._delete_from(where, partition, offset, deadline) for where, partition, offset in requested]

    def _delete_from(self, where: Uuid | int, partition: int, offset: int, deadline: float) -> DeletedRecords:
        if isinstance(where, int):
            return DeletedRecords(where, -1)
        wait_s = max(0.0, deadline - time.monotonic())
        try:
            return DeletedRecords(0, self._native.partitions.delete_records(where, partition, offset, wait_s))
        except NativeError as problem:
            return DeletedRecords(problem.code, -1)


def _resolve(topic: CachedTopic | int, partition: int) -> Uuid | int:
    """Return the topic's id, or the error code."""
    if isinstance(topic, int):
        return topic
    if not 0 <= partition < len(topic.partitions):
        return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.topic_id

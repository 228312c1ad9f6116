"""Deleting records from the start of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from pybroker.metadata.cache import CachedTopic, MetadataCache
from pybroker.native import NativeBroker, NativeError, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replicas.manager import ReplicaManager


class DeletedRecords(NamedTuple):
    """Outcome for one partition; the low watermark is -1 with an error."""

    error_code: int
    low_watermark: int


class RecordAdmin:
    """Needs the local replicas: a partition is asked at its leader."""

    def __init__(self, native: NativeBroker, cache: MetadataCache, replicas: ReplicaManager) -> None:
        self._native = native
        self._cache = cache
        self._replicas = replicas

    async def delete(self, wanted: Sequence[tuple[str, int, int]]) -> list[DeletedRecords]:
        """(topic, partition, offset or -1) → outcome, in order. The disk is touched off the loop, once for all."""
        topics = {name: self._topic(name) for name in dict.fromkeys(name for name, _, _ in wanted)}
        resolved = [(_resolve(topics[name], partition), partition, offset) for name, partition, offset in wanted]
        return await asyncio.get_running_loop().run_in_executor(None, self._delete, resolved)

    def _topic(self, name: str) -> CachedTopic | int:
        """The topic, or the error code of all its partitions."""
        topic = self._cache.topic(name)
        if topic is None:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic.internal:
            return int(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if "delete" not in self._replicas.resolved_config(topic.topic_id)["cleanup.policy"]:
            return int(ErrorCode.POLICY_VIOLATION)
        return topic

    def _delete(self, wanted: Sequence[tuple[Uuid | int, int, int]]) -> list[DeletedRecords]:
        return [self._delete_from(where, partition, offset) for where, partition, offset in wanted]

    def _delete_from(self, where: Uuid | int, partition: int, offset: int) -> DeletedRecords:
        if isinstance(where, int):
            return DeletedRecords(where, -1)
        try:
            return DeletedRecords(0, self._native.partitions.delete_records(where, partition, offset))
        except NativeError as problem:
            return DeletedRecords(problem.code, -1)


def _resolve(topic: CachedTopic | int, partition: int) -> Uuid | int:
    """The topic's id, or the error code."""
    if isinstance(topic, int):
        return topic
    if not 0 <= partition < len(topic.partitions):
        return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.topic_id

"""Deleting records from the start of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from pybroker.metadata.cache import MetadataCache
from pybroker.native import NativeBroker, Uuid
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
        resolved = [(self._resolve(topic, partition), partition, offset) for topic, partition, offset in wanted]
        return await asyncio.get_running_loop().run_in_executor(None, self._delete, resolved)

    def _resolve(self, name: str, partition: int) -> Uuid | int:
        """The topic's id, or the error code."""
        topic = self._cache.topic(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if "delete" not in self._replicas.resolved_config(topic.topic_id)["cleanup.policy"]:
            return int(ErrorCode.POLICY_VIOLATION)
        return topic.topic_id

    def _delete(self, wanted: Sequence[tuple[Uuid | int, int, int]]) -> list[DeletedRecords]:
        return [
            DeletedRecords(where, -1)
            if isinstance(where, int)
            else DeletedRecords(*self._native.delete_records(where, partition, offset))
            for where, partition, offset in wanted
        ]

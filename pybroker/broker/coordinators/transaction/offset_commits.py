"""Offsets committed in a producer's transaction (TxnOffsetCommit, KIP-98 and KIP-447).

The broker first verifies with the transaction coordinator that the group's partition of the offsets topic is part of
the transaction. Otherwise a commit could be written after the end of its transaction, and would block all readers of
the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group.interfaces import OFFSETS_TOPIC
from pybroker.broker.coordinators.shards.hashing import partition_for
from pybroker.broker.coordinators.shards.interfaces import TopicCreator, Topics
from pybroker.broker.coordinators.transaction.transaction import TransactionPartition, TransactionProducer
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.broker.coordinators.group_base.requests import CommitRequest


class PartitionMembership(Protocol):
    """Verifies that partitions are part of a transaction (`coordinators.transaction.membership`)."""

    async def verify(
        self,
        transactional_id: str,
        who: TransactionProducer,
        parts: Sequence[TransactionPartition],
        *,
        adds: bool,
        abortable: bool,
    ) -> list[ErrorCode]:
        """See `TransactionMembership.verify`."""
        ...


class TransactionalCommits:
    """Transactional offset commits of this broker's groups."""

    def __init__(
        self, groups: GroupCoordinator, membership: PartitionMembership, topics: Topics, creator: TopicCreator
    ) -> None:
        self._groups = groups
        self._membership = membership
        self._topics = topics
        self._creator = creator

    async def partition_of(self, group_id: str) -> TransactionPartition:
        """Return a group's partition of the offsets topic; create the topic if it does not exist.

        Raise KafkaError COORDINATOR_NOT_AVAILABLE.
        """
        topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        if topic_id is None:
            try:
                await self._creator.ensure_internal(OFFSETS_TOPIC)
            except KafkaError as error:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
            topic_id = self._topics.topic_id(OFFSETS_TOPIC)
        partitions = 0 if topic_id is None else self._topics.partition_count(topic_id)
        if topic_id is None or not partitions:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The topic {OFFSETS_TOPIC} is being created.")
        return TransactionPartition(OFFSETS_TOPIC, topic_id, partition_for(group_id, partitions))

    async def commit(
        self, transactional_id: str, request: CommitRequest, *, adds: bool, abortable: bool
    ) -> list[ErrorCode]:
        """Return a code for each item when the accepted items are durable. They become visible when the transaction
        commits.

        `adds`, `abortable`: see `TransactionMembership.verify`. Raise KafkaError for the whole request.
        """
        assert request.producer is not None
        who = TransactionProducer(*request.producer)
        watch = self._groups.open_in(request.group_id, request.producer)
        if watch is not None:
            try:
                part = await self.partition_of(request.group_id)
                (code,) = await self._membership.verify(transactional_id, who, [part], adds=adds, abortable=abortable)
            finally:
                watch.close()
            if code is not ErrorCode.NONE:
                raise KafkaError(code)
            if watch.broken:
                raise KafkaError(
                    ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE,
                    "The transaction has ended.",
                )
        outcome = self._groups.commit(request)
        return await outcome if isinstance(outcome, asyncio.Future) else outcome

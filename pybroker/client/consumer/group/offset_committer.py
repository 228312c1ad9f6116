"""Committed offsets of a consumer. Topic ids are used if the broker and the metadata have them, so that incarnations do
not share offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from pybroker.client.client_errors import CommitFailedError, KafkaError, broker_error
from pybroker.client.cluster_metadata import TopicPartition, by_topic
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network
from pybroker.client.connection.offset_requests import (
    OFFSETS_BY_ID,
    fetched_offsets,
    offset_commit_topics,
    offset_fetch_request,
)
from pybroker.client.consumer.group.group_membership import GroupMembership, GroupMetadata
from pybroker.client.offset_types import OffsetAndMetadata
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_STABLE_FROM = 7
"""First version in which OffsetFetch can require stable offsets, which no open transaction can change (KIP-447)."""
_NOT_OURS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)


class _DeletedTopic(KafkaError):
    """The incarnation of the topic no longer exists."""

    retriable = False


class _Stale(KafkaError):
    """The group has a newer member epoch. The next heartbeat returns it; then a retry succeeds."""

    retriable = True


class GroupCommits:
    """Commits and fetches offsets of one group."""

    def __init__(
        self,
        config: ClientConfig,
        network: Network,
        member: GroupMembership,
        topic_id: Callable[[TopicPartition], Uuid],
    ) -> None:
        self._config = config
        self._network = network
        self._member = member
        self._topic_id = topic_id
        self._stable = config["isolation.level"] == "read_committed"

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float | None = None) -> None:
        """Commit offsets. Raises CommitFailedError if the group has rebalanced, KafkaError if the coordinator refuses,
        and a connection error if it is unreachable for `timeout_s` (None = `default.api.timeout.ms`).

        Each attempt uses the current topic ids and membership. In the pause between two attempts, the name may get
        another topic id, or the partitions may get another owner.
        """
        if not offsets:
            return
        who = self._member.metadata
        if who.generation < 0 and self._member.is_subscribed:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"this consumer is not a member of group {who.group_id}"
            )
        ids = {topic: self._topic_id(TopicPartition(topic, indexes[0])) for topic, indexes in by_topic(offsets).items()}
        held = self._member.owned.intersection(offsets)

        async def once() -> None:
            code, where = await self._commit(offsets, ids, who, held)
            if not code:
                return
            if code == ErrorCode.STALE_MEMBER_EPOCH:
                self._member.answered(code)
                raise _Stale(code, f"commit of {where} in group {who.group_id}")
            about = f"commit of {where} in group {who.group_id}"
            if code not in _NOT_OURS or self._member.identity(who, held) is not None:
                self._member.answered(code)  # Otherwise the error belongs to an earlier membership.
            if code in _NOT_OURS or code == ErrorCode.REBALANCE_IN_PROGRESS:
                raise CommitFailedError(code, f"{about}: the partitions may belong to another member")
            # If the commit was by id, this error is final: the incarnation no longer exists.
            raise _DeletedTopic(code, about) if code == ErrorCode.UNKNOWN_TOPIC_ID else broker_error(code, about=about)

        await self._member.attempt(once, timeout_s)

    async def _commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        ids: Mapping[str, Uuid],
        who: GroupMetadata,
        held: frozenset[TopicPartition],
    ) -> tuple[int, object]:
        highest = await self._member.highest(m.OffsetCommitRequest)
        now = self._member.identity(who, held)
        if now is None:
            raise CommitFailedError(
                ErrorCode.ILLEGAL_GENERATION,
                f"this consumer rejoined group {who.group_id}; the partitions may belong to another member",
            )
        version = highest if all(ids.values()) else min(highest, OFFSETS_BY_ID - 1)
        for topic, topic_id in ids.items():
            # In a commit by name, only this check prevents that the offset reaches another incarnation of the topic.
            current = self._topic_id(TopicPartition(topic, -1))
            if version < OFFSETS_BY_ID and topic_id and current and current != topic_id:
                return ErrorCode.UNKNOWN_TOPIC_ID, topic
        answer = await self._member.ask(
            m.OffsetCommitRequest(
                group_id=who.group_id,
                generation_id_or_member_epoch=now.generation,
                member_id=now.member_id if now.generation >= 0 else "",
                group_instance_id=now.group_instance_id if now.generation >= 0 else None,
                topics=offset_commit_topics(offsets, ids),
            ),
            version,
        )
        for topic in answer.topics:
            for row in topic.partitions:
                if row.error_code:
                    return row.error_code, topic.name or topic.topic_id
        return 0, None

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return committed offsets. The result omits a partition without a committed offset in its current incarnation.
        """
        requested = list(partitions)
        if not requested:
            return {}

        async def once() -> dict[TopicPartition, OffsetAndMetadata]:
            try:
                return await self._committed(requested)
            except KafkaError as error:
                self._member.answered(error.code)
                if error.code == ErrorCode.STALE_MEMBER_EPOCH:
                    raise _Stale(error.code, error.message) from None
                if error.code == ErrorCode.UNKNOWN_TOPIC_ID:
                    await self._network.refresh({each.topic for each in requested})
                raise

        return await self._member.attempt(once)

    async def _committed(self, requested: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        highest = await self._member.highest(m.OffsetFetchRequest)
        topics = by_topic(requested)
        ids = {topic: self._topic_id(TopicPartition(topic, indexes[0])) for topic, indexes in topics.items()}
        version = highest if all(ids.values()) else min(highest, OFFSETS_BY_ID - 1)
        request = offset_fetch_request(
            self._member.group_id,
            topics,
            ids,
            require_stable=self._stable and version >= _STABLE_FROM,
            member=self._member.reads_as,
        )
        answer = await self._member.ask(request, version)
        names = {topic_id: topic for topic, topic_id in ids.items()}
        return fetched_offsets(answer, version, self._member.group_id, names)

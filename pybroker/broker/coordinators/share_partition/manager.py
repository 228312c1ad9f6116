"""The share partitions of this broker, and the members that read from them (KIP-932).

A ShareFetch gets records of the partitions in the member's session. If there are no records, the request waits for new
records, for released records, or until its timeout. Acquired records belong to the member until it acknowledges them,
their lock expires, or the session ends. The session ends by the member's last request, or when its connection closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.coordinators.share_partition.in_flight import AckBatch
from pybroker.broker.coordinators.share_partition.partition import (
    SharePartition,
    SharePartitionDependencies,
    SharePartitionPhase,
)
from pybroker.broker.coordinators.share_partition.requests import Answers, Limits, SharePartitionAnswer, ShareRequest
from pybroker.broker.coordinators.share_partition.sessions import (
    CLOSES,
    OPENS,
    BrokerShareSession,
    ShareSessions,
    TopicPartition,
)
from pybroker.broker.coordinators.share_partition.share_statistics import ShareStatistics
from pybroker.broker.coordinators.share_state.state import Key
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

LOAD_RETRY_MS = 250
"""Milliseconds before the broker tries again to load a partition. Most loads fail because the share coordinator is
still loading."""

LATER = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Temporary errors. The member gets an empty response instead of the error."""


class RemovedShareTopic(Protocol):
    """A deleted incarnation of a topic."""

    @property
    def topic_id(self) -> Uuid: ...


MayRead = Callable[[str], bool]
"""Whether the member is authorized to read a topic."""


class SharePartitions:
    def __init__(
        self, broker_id: int, topics: Topics, dependencies: SharePartitionDependencies, statistics: ShareStatistics
    ) -> None:
        self._broker_id = broker_id
        self._topics = topics
        self._dependencies = dependencies
        self._partitions: dict[Key, SharePartition] = {}
        self._failed: dict[Key, tuple[int, KafkaError]] = {}
        """Key → (time, reason) of the last failed load."""
        self.sessions = ShareSessions(lambda: dependencies.settings.sessions_max)
        self.statistics = statistics

    def __len__(self) -> int:
        return len(self._partitions)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def fetch(self, request: ShareRequest, limits: Limits, may_read: MayRead) -> Answers:
        """Handle a ShareFetch. Raise KafkaError for the whole request."""
        session = self._session(request)
        answers = await self._acknowledge(request, may_read)
        if request.epoch == CLOSES:
            self._close(session)
            return answers
        for partition in request.forgotten:
            session.partitions.pop(partition, None)
        for partition in request.added:
            session.partitions.setdefault(partition)
        if not request.renews:
            await self._give(session, limits, may_read, answers)
        if request.epoch == OPENS:
            for partition in session.partitions:
                answers.setdefault(partition, SharePartitionAnswer())
        return answers

    async def acknowledge(self, request: ShareRequest, may_read: MayRead) -> Answers:
        """Handle a ShareAcknowledge. Raise KafkaError for the whole request."""
        if request.epoch == OPENS:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "A share session must begin with a ShareFetch.")
        session = self._session(request)
        answers = await self._acknowledge(request, may_read)
        if request.epoch == CLOSES:
            self._close(session)
        return answers

    def _session(self, request: ShareRequest) -> BrokerShareSession:
        if request.epoch == OPENS:
            if any(request.acknowledged.values()):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "The first request of a share session must not acknowledge records."
                )
            return self.sessions.open(request.group, request.member, request.connection_id, request.added)
        return self.sessions.next(request.group, request.member, request.epoch, request.connection_id)

    async def _acknowledge(self, request: ShareRequest, may_read: MayRead) -> Answers:
        answers: Answers = {}
        work: list[tuple[SharePartitionAnswer, asyncio.Task[None]]] = []
        for partition, batches in request.acknowledged.items():
            answer = answers[partition] = SharePartitionAnswer()
            if batches:
                self.statistics.note_acknowledged(batches)
                task = self._dependencies.loop.create_task(self._acknowledge_one(request, partition, batches, may_read))
                work.append((answer, task))
        for answer, task in work:
            try:
                await task
            except KafkaError as problem:
                answer.acknowledge_error = problem
        return answers

    async def _acknowledge_one(
        self, request: ShareRequest, partition: TopicPartition, batches: Sequence[AckBatch], may_read: MayRead
    ) -> None:
        self._check(partition, may_read)
        share = self._partitions.get(Key(request.group, *partition))
        if share is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The record is no longer acquired by this member.")
        await share.acknowledge(request.member, batches)

    # --- acquiring ----------------------------------------------------------------------------------------------------

    async def _give(self, session: BrokerShareSession, limits: Limits, may_read: MayRead, answers: Answers) -> None:
        loop = self._dependencies.loop
        deadline = loop.time() + max(limits.max_wait_ms, 0) / 1000
        while True:
            left = deadline - loop.time()
            acquired, waited_for = self._try(session, limits, may_read, answers, last=left <= 0)
            if acquired or left <= 0 or not self.sessions.holds(session):
                return
            await self._wait(waited_for, left)

    async def _wait(self, waited_for: Sequence[SharePartition], seconds: float) -> None:
        woken: asyncio.Future[None] = self._dependencies.loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        if not waited_for:
            seconds = min(seconds, LOAD_RETRY_MS / 1000)
        for share in waited_for:
            share.waiters.add(wake)
        handle = self._dependencies.loop.call_later(seconds, wake)
        try:
            await woken
        finally:
            handle.cancel()
            for share in waited_for:
                share.waiters.discard(wake)

    def _try(
        self, session: BrokerShareSession, limits: Limits, may_read: MayRead, answers: Answers, *, last: bool
    ) -> tuple[bool, list[SharePartition]]:
        """Return (whether the response is ready, otherwise the partitions to wait for). `last`: do not wait any longer;
        respond even with less than `min_bytes`."""
        looks = []
        waited_for: list[SharePartition] = []
        size, failed = 0, False
        for partition in session.rotated():
            if size >= limits.max_bytes:
                break
            try:
                share = self._find(session.group, partition, may_read)
                if share is None:
                    continue
                waited_for.append(share)
                look = share.look(limits.max_bytes - size, max(limits.max_records, 1))
            except KafkaError as problem:
                answers.setdefault(partition, SharePartitionAnswer()).error = problem
                failed = True
                continue
            if look is not None:
                looks.append((partition, share, look))
                size += look.fetched.size_bytes
        if size < limits.min_bytes and not (last or failed):
            return False, waited_for
        number = 0
        for partition, share, look in looks:
            if number >= limits.max_records:
                break
            taken = share.take(
                look, session.member, (limits.max_records - number, limits.batch_size), strict=limits.strict
            )
            if taken is not None:
                number += taken.number
                answer = answers.setdefault(partition, SharePartitionAnswer())
                answer.records, answer.acquired = taken.records, taken.acquired
                self.statistics.note_acquired(taken.number)
        return failed or number > 0, waited_for

    def _find(self, group: str, partition: TopicPartition, may_read: MayRead) -> SharePartition | None:
        """Return the share partition, and create it if it does not exist; None while it is loading. Raise KafkaError.
        """
        leader_epoch = self._check(partition, may_read)
        key = Key(group, *partition)
        share = self._partitions.get(key)
        if share is not None and share.leader_epoch != leader_epoch:
            share.end()
            share = None
        if share is None:
            at_ms, problem = self._failed.get(key, (0, None))
            if problem is not None and self._dependencies.clock.monotonic_ms() - at_ms < LOAD_RETRY_MS:
                if problem.code in LATER:
                    return None
                raise _for_member(problem)
            self._failed.pop(key, None)
            share = self._partitions[key] = SharePartition(key, leader_epoch, self._dependencies, self._ended)
        return share

    def _check(self, partition: TopicPartition, may_read: MayRead) -> int:
        """Return the leader epoch under which this broker leads the partition.

        Raise KafkaError UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION or
        NOT_LEADER_OR_FOLLOWER.
        """
        topic_id, index = partition
        name = self._topics.topic_name(topic_id)
        if name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not may_read(name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if not 0 <= index < self._topics.partition_count(topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leader, epoch = self._topics.leader(topic_id, index)
        if leader != self._broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return epoch

    def _ended(self, share: SharePartition) -> None:
        if self._partitions.get(share.key) is share:
            del self._partitions[share.key]
        if share.problem is not None:
            self._failed[share.key] = self._dependencies.clock.monotonic_ms(), share.problem

    # --- ending sessions ----------------------------------------------------------------------------------------------

    def connection_gone(self, connection_id: int) -> None:
        """Close the sessions of a closed connection."""
        for session in self.sessions.of_connection(connection_id):
            self._close(session)

    def _close(self, session: BrokerShareSession) -> None:
        group_has_none = self.sessions.close(session)
        for share in list(self._partitions.values()):
            if share.key.group == session.group:
                share.release(session.member)
                if group_has_none:
                    # No member reads the partition now, so an administrator may reset the group's offsets. End the
                    # share partition.
                    share.end_when_idle(lambda: not self.sessions.has_group(session.group))

    # --- deleted topics -----------------------------------------------------------------------------------------------

    def topics_removed(self, removed: Sequence[RemovedShareTopic]) -> None:
        """End the share partitions of deleted incarnations."""
        gone = {topic.topic_id for topic in removed}
        for share in list(self._partitions.values()):
            if share.key.topic_id in gone:
                share.end()
        for key in [key for key in self._failed if key.topic_id in gone]:
            del self._failed[key]

    def stop(self) -> None:
        """Stop delivering records."""
        for share in list(self._partitions.values()):
            share.end()

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Return (broker, leader epoch) of a partition."""
        return self._topics.leader(*partition)

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Return (host, port) of a broker on the listener with this name."""
        return self._topics.endpoint(broker_id, listener)

    @property
    def acquired(self) -> int:
        """Number of records that members have acquired at the moment."""
        return sum(
            share.table.acquired for share in self._partitions.values() if share.phase is SharePartitionPhase.ACTIVE
        )


def _for_member(problem: KafkaError) -> KafkaError:
    """Map a coordinator's error to an error code that client libraries handle."""
    if problem.code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, problem.message)
    if problem.code == ErrorCode.INVALID_REQUEST:
        # The group does not read the topic, or its share state is not initialized yet.
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem.message)
    return problem

"""The two-phase prepare of a commit: every in-sync replica brings the listed attempts to disk.

First the leaders compare the list with their staged files, send missing files to the other replicas, and refuse further
appends; then the followers prepare. The decision checks that the ISRs have not changed. Each attempt to prepare a
commit writes a plan with its own number, and the decision names the number of one plan.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.ingest_orders import IngestPeers, PrepareIngest
from pybroker.broker.ingest.ingest_leader import IngestLeader
from pybroker.broker.metadata.ingest_records import IngestRecord
from pybroker.errors import KafkaError
from pybroker.native import IngestPreparation, ListedAttempt, Uuid
from pybroker.protocol.error_codes import ErrorCode

ALONE = IngestPreparation(plan=0, leads=True, holders={})
PLAN_MAX = 2**32 - 1

Rows = Mapping[int, tuple[int, int]]
"""Rows and bytes by partition."""


class PreparedIngest(NamedTuple):
    """A commit that can be decided."""

    partitions: Rows
    plan: int
    versions: Mapping[int, int] | None
    """Versions of the partition states; None on a broker without peers."""


class Preparing:
    """Prepares commits on this broker and its peers."""

    def __init__(
        self,
        broker_id: int,
        leader: IngestLeader,
        view: ClusterView,
        peers: IngestPeers | None,
        min_in_sync: Callable[[Uuid], int],
    ) -> None:
        self._broker_id = broker_id
        self._leader = leader
        self._view = view
        self._peers = peers
        self._min_in_sync = min_in_sync

    async def prepare(self, record: IngestRecord, listed: Sequence[ListedAttempt]) -> PreparedIngest:
        """Prepare a commit. Raises KafkaError; even then, some brokers may have prepared it."""
        if self._peers is None:
            return PreparedIngest(await self._leader.prepare(record.key, record.epoch, ALONE, listed), 0, None)
        leaders, holders, versions = self._states(record.topic_id, {share.partition for share in listed})
        plan = random.randint(1, PLAN_MAX)

        def order(leads: bool, indexes: Iterable[int]) -> PrepareIngest:
            chosen = set(indexes)
            return PrepareIngest(
                record.key,
                record.epoch,
                plan,
                leads,
                {index: holders[index] for index in chosen},
                tuple(_fields(share) for share in listed if share.partition in chosen),
            )

        led: dict[int, list[int]] = defaultdict(list)
        for index, leader in leaders.items():
            led[leader].append(index)
        found = await _all(self._ask(broker, order(True, indexes)) for broker, indexes in led.items())
        partitions = {index: sums for prepared in found for index, sums in prepared.items()}
        followed: dict[int, list[int]] = defaultdict(list)
        for index in partitions:
            for broker in holders[index]:
                if broker != leaders[index]:
                    followed[broker].append(index)
        try:
            await _all(self._ask(broker, order(False, indexes)) for broker, indexes in followed.items())
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_REQUEST:
                # The leader has the listed attempts, so the replica has to get them from the leader again.
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, error.message) from None
            raise
        return PreparedIngest(partitions, plan, {index: versions[index] for index in partitions})

    async def here(self, order: PrepareIngest) -> Rows:
        """Prepare partitions of this broker for a commit that another broker decides. Raise KafkaError."""
        preparation = IngestPreparation(plan=order.plan, leads=order.leads, holders=order.holders)
        listed = [
            ListedAttempt(partition=part, writer=writer, attempt=attempt, rows=rows, bytes=size, checksum=checksum)
            for part, writer, attempt, rows, size, checksum in order.listed
        ]
        return await self._leader.prepare(order.key, order.epoch, preparation, listed)

    def _states(
        self, topic_id: Uuid, indexes: Iterable[int]
    ) -> tuple[dict[int, int], dict[int, tuple[int, ...]], dict[int, int]]:
        """Return leader, ISR, and version of each partition's state, as far as this broker knows."""
        topic = self._view.image.topic_by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic {self._view.image.describe(topic_id)}.")
        required = self._min_in_sync(topic_id)
        leaders, holders, versions = {}, {}, {}
        for index in sorted(indexes):
            if not 0 <= index < len(topic.partitions):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the topic has no partition {index}")
            state = topic.partitions[index]
            if state.leader < 0:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Partition {index} has no leader now. Try again later."
                )
            if len(state.isr) < required:
                raise KafkaError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"Partition {index} has {len(state.isr)} replicas in sync, but min.insync.replicas is {required}.",
                )
            leaders[index], holders[index], versions[index] = state.leader, state.isr, state.state_version
        return leaders, holders, versions

    async def _ask(self, broker_id: int, order: PrepareIngest) -> Rows:
        if broker_id == self._broker_id:
            return await self.here(order)
        assert self._peers is not None
        return await self._peers.prepare(broker_id, order)


def _fields(one: ListedAttempt) -> tuple[int, int, int, int, int, int]:
    return one.partition, one.writer, one.attempt, one.rows, one.bytes, one.checksum


async def _all(work: Iterable[Awaitable[Rows]]) -> list[Rows]:
    """Wait for all brokers. If several fail, prefer to raise an error about the listed attempts (INVALID_REQUEST),
    because a retry may avoid other errors."""
    results = await asyncio.gather(*work, return_exceptions=True)
    problems = [result for result in results if isinstance(result, BaseException)]
    for problem in problems:
        if not isinstance(problem, KafkaError) or problem.code == ErrorCode.INVALID_REQUEST:
            raise problem
    if problems:
        raise problems[0]
    return [result for result in results if not isinstance(result, BaseException)]

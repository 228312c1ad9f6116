"""AdminClient's calls about leaders and the placement of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.client_errors import KafkaError, broker_error
from pybroker.client.cluster_metadata import Partition, TopicPartition, by_topic, by_topic_and_id, partition_of
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.native import Uuid
from pybroker.protocol import messages as m


class ElectionType(IntEnum):
    """Which replicas may become leader (KIP-460)."""

    PREFERRED = 0
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, if the partition has no leader: records that exist only on dead replicas are lost."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment in progress (KIP-455). replicas: all current replicas."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


_UNCLEAN = 1


class PlacementAdmin(AdminBase):
    """Calls about leaders and replicas."""

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[Partition] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> dict[Partition, KafkaError | None]:
        """Elect leaders of these partitions, which are named by topic name or topic id; None = all partitions that need
        an election.

        Returns partition → None, or the error (ELECTION_NOT_NEEDED: the partition already has the leader it should
        have).
        """
        wanted = None if partitions is None else by_topic_and_id(partitions)
        request = m.ElectLeadersRequest(
            election_type=int(election_type),
            topic_partitions=None
            if wanted is None
            else [
                m.ElectLeadersRequest_TopicPartitions(topic=name, topic_id=topic_id, partitions=indexes)
                for (name, topic_id), indexes in wanted.items()
            ],
            timeout_ms=self._timeout_ms(timeout_s),
        )

        async def ask(connection: BrokerConnection) -> Any:
            self._require_topic_ids(connection, [topic_id for _, topic_id in wanted or ()])
            if election_type == ElectionType.UNCLEAN:
                self._at_least(connection, m.ElectLeadersRequest, _UNCLEAN, "elect leaders uncleanly")
            answer = await connection.request(request)
            if answer.error_code:
                raise broker_error(answer.error_code, about="election of leaders")
            return answer

        answer = await self._network.attempt("controller", ask, about="election of leaders")
        found: dict[Any, KafkaError | None] = {}
        for topic in answer.replica_election_results:
            for row in topic.partition_result:
                where = partition_of(topic.topic, topic.topic_id, row.partition_id)
                failed = broker_error(row.error_code, row.error_message or str(where)) if row.error_code else None
                found[where] = failed
        return found

    def alter_partition_reassignments(
        self, reassignments: Mapping[Partition, Sequence[int] | None], *, timeout_s: float | None = None
    ) -> KeyedResult[Partition, None]:
        """Start reassignments: partition, by name or by id → broker ids of its replicas, the preferred leader first.

        None cancels the reassignment in progress. The futures complete when the reassignment has started.
        """
        wanted: Mapping[Any, Sequence[int] | None] = reassignments
        by_id = by_topic_and_id(reassignments)
        request = m.AlterPartitionReassignmentsRequest(
            topics=[
                m.AlterPartitionReassignmentsRequest_ReassignableTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=[_reassignable(index, wanted[partition_of(name, topic_id, index)]) for index in indexes],
                )
                for (name, topic_id), indexes in by_id.items()
            ],
            timeout_ms=self._timeout_ms(timeout_s),
        )

        async def work(futures: Futures[Any, None]) -> None:
            answer = await self._decided(request, "reassignment", (topic_id for _, topic_id in by_id))
            for topic in answer.responses:
                for row in topic.partitions:
                    where = partition_of(topic.name, topic.topic_id, row.partition_index)
                    if where in futures:
                        settle(futures[where], row.error_code, row.error_message, None, str(where))

        return KeyedResult(start(reassignments, work))

    async def _decided(self, request: Any, about: str, ids: Iterable[Uuid] = ()) -> Any:
        """Return the controller's response. Raises KafkaError if the response's top-level error is set. ids: topic ids
        that the request carries in tagged fields.
        """
        topic_ids = tuple(ids)

        async def ask(connection: BrokerConnection) -> Any:
            self._require_topic_ids(connection, topic_ids)
            answer = await connection.request(request)
            if answer.error_code:
                raise broker_error(answer.error_code, answer.error_message or about)
            return answer

        return await self._network.attempt("controller", ask, about=about)

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a dead broker that has no replicas. Deletions of topics then no longer wait for its copies.

        Raises KafkaError BROKER_ID_NOT_REGISTERED if the id is unknown, INVALID_REQUEST if the broker runs or has
        replicas; the message names the obstacle.
        """
        request = m.UnregisterBrokerRequest(broker_id=broker_id)
        await self._decided(request, f"broker {broker_id}")

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress: all, or those of these partitions."""
        wanted = None if partitions is None else by_topic(partitions)
        request = m.ListPartitionReassignmentsRequest(
            topics=None
            if wanted is None
            else [
                m.ListPartitionReassignmentsRequest_ListPartitionReassignmentsTopics(
                    name=name, partition_indexes=list(found)
                )
                for name, found in wanted.items()
            ],
            timeout_ms=self._timeout_ms(timeout_s),
        )

        answer = await self._decided(request, "list of reassignments")
        return {
            TopicPartition(topic.name, row.partition_index): PartitionReassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }


def _reassignable(
    index: int, replicas: Sequence[int] | None
) -> m.AlterPartitionReassignmentsRequest_ReassignablePartition:
    return m.AlterPartitionReassignmentsRequest_ReassignablePartition(
        partition_index=index, replicas=None if replicas is None else list(replicas)
    )

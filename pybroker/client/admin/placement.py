"""AdminClient's calls about who leads partitions and which brokers have their replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pybroker.client.admin.base import AdminBase
from pybroker.client.admin.placement_types import ElectionType, PartitionReassignment
from pybroker.client.admin.results import Futures, KeyedResult, settle, start
from pybroker.client.cluster import TopicPartition, by_topic
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.errors import KafkaError, broker_error
from pybroker.protocol import messages as m

_UNCLEAN = 1


class PlacementAdmin(AdminBase):
    """Leaders and replicas."""

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elects leaders, of all partitions that need it (None) or of these. Partition → None, or why it has no new
        leader (ELECTION_NOT_NEEDED: it is led as it should be)."""
        wanted = None if partitions is None else by_topic(partitions)
        request = m.ElectLeadersRequest(
            election_type=int(election_type),
            topic_partitions=None
            if wanted is None
            else [
                m.ElectLeadersRequest_TopicPartitions(topic=name, partitions=list(indexes))
                for name, indexes in wanted.items()
            ],
            timeout_ms=self._timeout_ms(timeout_s),
        )

        async def ask(connection: BrokerConnection) -> Any:
            if election_type == ElectionType.UNCLEAN:
                self._at_least(connection, m.ElectLeadersRequest, _UNCLEAN, "elect leaders uncleanly")
            answer = await connection.request(request)
            if answer.error_code:
                raise broker_error(answer.error_code, about="election of leaders")
            return answer

        answer = await self._network.attempt("controller", ask, about="election of leaders")
        found: dict[TopicPartition, KafkaError | None] = {}
        for topic in answer.replica_election_results:
            for row in topic.partition_result:
                where = TopicPartition(topic.topic, row.partition_id)
                failed = broker_error(row.error_code, row.error_message or str(where)) if row.error_code else None
                found[where] = failed
        return found

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None], *, timeout_s: float | None = None
    ) -> KeyedResult[TopicPartition, None]:
        """Partition → the brokers that shall have its replicas, the preferred leader first; None: the reassignment that
        is under way is taken back. Answered when it has begun."""
        request = m.AlterPartitionReassignmentsRequest(
            topics=[
                m.AlterPartitionReassignmentsRequest_ReassignableTopic(
                    name=name,
                    partitions=[_reassignable(index, reassignments[TopicPartition(name, index)]) for index in indexes],
                )
                for name, indexes in by_topic(reassignments).items()
            ],
            timeout_ms=self._timeout_ms(timeout_s),
        )

        async def work(futures: Futures[TopicPartition, None]) -> None:
            answer = await self._decided(request, "reassignment")
            for topic in answer.responses:
                for row in topic.partitions:
                    where = TopicPartition(topic.name, row.partition_index)
                    if where in futures:
                        settle(futures[where], row.error_code, row.error_message, None, str(where))

        return KeyedResult(start(reassignments, work))

    async def _decided(self, request: Any, about: str) -> Any:
        """What the controller answers, unless it refuses the request as a whole."""

        async def ask(connection: BrokerConnection) -> Any:
            answer = await connection.request(request)
            if answer.error_code:
                raise broker_error(answer.error_code, answer.error_message or about)
            return answer

        return await self._network.attempt("controller", ask, about=about)

    async def unregister_broker(self, broker_id: int) -> None:
        """A broker that is dead and has no replicas will not come back: nobody waits for what it has of deleted topics.
        Raises KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST, which says what is in the way."""
        request = m.UnregisterBrokerRequest(broker_id=broker_id)
        await self._decided(request, f"broker {broker_id}")

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments that are under way: all, or of these partitions."""
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

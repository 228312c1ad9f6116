"""ElectLeaders (KIP-460), AlterPartitionReassignments and ListPartitionReassignments (KIP-455), UnregisterBroker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import (
    ElectedPartition,
    ElectionOutcome,
    ElectLeaders,
    NewReplicas,
    ReassignPartitions,
    UnregisterBroker,
)
from pybroker.broker.metadata.image import PartitionImage, is_moving
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode


class ElectionAdmin:
    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller

    async def elect(
        self, partitions: Sequence[ElectedPartition] | None, timeout_ms: int, *, unclean: bool, caller: Caller
    ) -> list[ElectionOutcome]:
        """Elect leaders and return one result per partition, in order. With `partitions` None, return the partitions
        that needed an election. On success this broker already shows the new leader. Raises KafkaError if no controller
        is available."""
        if partitions is not None:
            # Remove duplicates. A second election of the same partition would return ELECTION_NOT_NEEDED.
            partitions = tuple(dict.fromkeys(partitions))
        answer = await self._controller.submit(ElectLeaders(unclean, partitions), timeout_ms, caller=caller)
        if answer.is_complete:
            return answer.reply
        late = "The leader is elected, but not all brokers have applied the change yet."
        return [
            result
            if result.error_code
            else msgspec.structs.replace(result, error_code=int(ErrorCode.REQUEST_TIMED_OUT), error_message=late)
            for result in answer.reply
        ]


class ReassignmentAdmin:
    def __init__(self, view: ClusterView, controller: ControllerClient) -> None:
        self._view = view
        self._controller = controller

    async def alter(
        self, partitions: Sequence[NewReplicas], timeout_ms: int, *, factor_may_change: bool, caller: Caller
    ) -> list[KafkaError | None]:
        """Start or cancel reassignments. Return for each partition, in order, None if the change is made and this
        broker's metadata shows it, or the error. Raises KafkaError if no controller is available.
        """
        topics = self._view.image.topics
        # Look up the topic ids now, so that a topic that is later created with the same name is not reassigned.
        known = tuple(
            partition
            if partition.topic_id is not None or partition.topic not in topics
            else msgspec.structs.replace(partition, topic_id=topics[partition.topic].topic_id)
            for partition in partitions
        )
        answer = await self._controller.submit(ReassignPartitions(known, factor_may_change), timeout_ms, caller=caller)
        if answer.is_complete:
            return answer.reply
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The reassignment has begun, but not all brokers have applied the change yet."
        )
        return [late if error is None else error for error in answer.reply]

    def under_way(self, requested: Mapping[str, Iterable[int]] | None) -> dict[str, dict[int, PartitionImage]]:
        """Return topic → partition → state of all reassignments, or of the requested partitions. As in Kafka, skip
        partitions that do not exist."""
        topics = self._view.image.topics
        found: dict[str, dict[int, PartitionImage]] = {}
        for name in topics if requested is None else requested:
            partitions = topics[name].partitions if name in topics else ()
            for index in range(len(partitions)) if requested is None else requested[name]:
                if 0 <= index < len(partitions) and is_moving(partitions[index]):
                    found.setdefault(name, {})[index] = partitions[index]
        return found


class BrokerAdmin:
    def __init__(self, controller: ControllerClient, voters: Callable[[], frozenset[int]] | None) -> None:
        """`voters` returns the voters of the metadata quorum, if there is one."""
        self._controller = controller
        self._voters = voters

    async def unregister(self, broker_id: int, *, caller: Caller) -> None:
        """Remove a broker from the metadata. Raises KafkaError: BROKER_ID_NOT_REGISTERED if the id is unknown,
        INVALID_REQUEST if the broker runs, votes or has replicas, or another error if no controller is available.
        """
        if self._voters is not None and broker_id in self._voters():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Broker {broker_id} is a voter of the metadata quorum: remove it as a voter first (`pybroker cluster "
                "quorum remove`, or `kafka-metadata-quorum remove-controller`).",
            )
        answer = await self._controller.submit(UnregisterBroker(broker_id), caller=caller)
        if not answer.is_complete:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                "The broker is unregistered, but this broker has not applied the change yet.",
            )

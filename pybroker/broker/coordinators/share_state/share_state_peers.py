"""Calls share coordinators on other brokers by Kafka's requests 83 to 87. A broker without peers does not import this
module."""

from __future__ import annotations

from typing import Any

from pybroker.broker.coordinators.shards.interfaces import BrokerConnections
from pybroker.broker.coordinators.share_state.records import batches_of
from pybroker.broker.coordinators.share_state.state import NO_COUNT, Key, ShareState, Write
from pybroker.errors import KafkaError
from pybroker.native import CodecError
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode


class OtherShareCoordinators:
    """Implements `share_state.coordinator.ShareStatePeers`."""

    def __init__(self, brokers: BrokerConnections) -> None:
        self._brokers = brokers

    async def initialize(self, broker_id: int, key: Key, state_epoch: int, start_offset: int) -> None:
        """See `Persister.initialize`."""
        requested = m.InitializeShareGroupStateRequest_PartitionData(key.partition, state_epoch, start_offset)
        topic = m.InitializeShareGroupStateRequest_InitializeStateData(key.topic_id, [requested])
        await self._ask(broker_id, m.InitializeShareGroupStateRequest(key.group, [topic]))

    async def read(self, broker_id: int, key: Key, leader_epoch: int) -> ShareState:
        """See `Persister.read`."""
        requested = m.ReadShareGroupStateRequest_PartitionData(key.partition, leader_epoch)
        topic = m.ReadShareGroupStateRequest_ReadStateData(key.topic_id, [requested])
        result = await self._ask(broker_id, m.ReadShareGroupStateRequest(key.group, [topic]))
        try:
            batches = tuple(batches_of(result.state_batches))
        except CodecError as problem:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Broker {broker_id}: {problem}") from None
        return ShareState(result.state_epoch, result.start_offset, leader_epoch, NO_COUNT, batches)

    async def write(self, broker_id: int, key: Key, write: Write) -> None:
        """See `Persister.write`."""
        requested = m.WriteShareGroupStateRequest_PartitionData(
            partition=key.partition,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.complete_count,
            state_batches=[m.WriteShareGroupStateRequest_StateBatch(*batch) for batch in write.batches],
        )
        topic = m.WriteShareGroupStateRequest_WriteStateData(key.topic_id, [requested])
        await self._ask(broker_id, m.WriteShareGroupStateRequest(key.group, [topic]))

    async def delete(self, broker_id: int, key: Key) -> None:
        """See `Persister.delete`."""
        requested = m.DeleteShareGroupStateRequest_PartitionData(key.partition)
        topic = m.DeleteShareGroupStateRequest_DeleteStateData(key.topic_id, [requested])
        await self._ask(broker_id, m.DeleteShareGroupStateRequest(key.group, [topic]))

    async def summary(self, broker_id: int, key: Key) -> ShareState | None:
        """See `Persister.summary`."""
        requested = m.ReadShareGroupStateSummaryRequest_PartitionData(key.partition, -1)
        topic = m.ReadShareGroupStateSummaryRequest_ReadStateSummaryData(key.topic_id, [requested])
        result = await self._ask(broker_id, m.ReadShareGroupStateSummaryRequest(key.group, [topic]))
        if result.state_epoch < 0:
            return None
        return ShareState(result.state_epoch, result.start_offset, result.leader_epoch, result.delivery_complete_count)

    async def _ask(self, broker_id: int, request: Any) -> Any:
        """Return the result for the requested partition. Raise KafkaError with the result's error code."""
        answer = await self._brokers.ask(broker_id, request)
        results = [result for topic in answer.results for result in topic.partitions]
        if len(results) != 1:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Broker {broker_id} sent an unexpected response.")
        if results[0].error_code:
            raise KafkaError(results[0].error_code, results[0].error_message)
        return results[0]

    def close(self) -> None:
        """Close all connections."""
        self._brokers.close()

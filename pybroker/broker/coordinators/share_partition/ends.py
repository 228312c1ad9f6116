"""Reads the end offsets of partitions from their leaders. The lag of share groups is computed from these offsets."""

from __future__ import annotations

from pybroker.broker.coordinators.shards.interfaces import BrokerConnections, Topics
from pybroker.broker.coordinators.share_partition.interfaces import Log
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol import interbroker as wire

LATEST = -1


class PartitionEnds:
    """Reads end offsets from partition leaders. `brokers`: connections to other brokers; None on a broker without
    peers."""

    def __init__(self, broker_id: int, topics: Topics, log: Log, brokers: BrokerConnections | None) -> None:
        self._broker_id = broker_id
        self._topics = topics
        self._log = log
        self._brokers = brokers

    async def end(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the high watermark; None if the partition's leader does not respond or does not know the high
        watermark yet."""
        leader, epoch = self._topics.leader(topic_id, partition)
        if leader == self._broker_id:
            ends = self._log.offsets(topic_id, partition)
            return None if ends is None or ends.lags_epoch_start else ends.high_watermark
        if leader < 0 or self._brokers is None:
            return None
        requested = wire.ListOffsetsRequest_ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=epoch, timestamp=LATEST
        )
        request = wire.ListOffsetsRequest(
            replica_id=-1, topics=[wire.ListOffsetsRequest_ListOffsetsTopic(topic_id=topic_id, partitions=[requested])]
        )
        try:
            answer = await self._brokers.ask(leader, request)
        except KafkaError:
            return None
        found = [row for topic in answer.topics for row in topic.partitions if not row.error_code]
        return found[0].offset if found else None

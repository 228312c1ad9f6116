"""Offsets by time, first and last ones: asked of the partitions' leaders."""

from __future__ import annotations

from typing import Any

from pybroker.client.cluster import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network
from pybroker.client.errors import broker_error
from pybroker.client.offsets import OffsetAndTimestamp, OffsetSpec
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode


class OffsetLookup:
    """ListOffsets as a consumer asks it."""

    def __init__(self, config: ClientConfig, network: Network) -> None:
        self._config = config
        self._network = network
        self._committed_only = config["isolation.level"] == "read_committed"

    async def find(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Of partitions that the metadata may not know yet; asks again while leaders change. Raises UnknownTopicError
        for what does not exist.
        """
        await self._network.existing(wanted)

        async def look(_: object) -> dict[TopicPartition, OffsetAndTimestamp]:
            await self._network.refresh({where.topic for where in wanted})
            return await self.once(wanted)

        return await self._network.attempt("any", look)

    async def once(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Asks the leaders that the metadata know. Raises the first error."""
        by_leader: dict[int, dict[str, list[Any]]] = {}
        for where, spec in wanted.items():
            info = self._network.cluster.partition(where)
            if info is None or info.leader < 0:
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, about=str(where))
            row = m.ListOffsetsRequest_ListOffsetsPartition(
                partition_index=where.partition, current_leader_epoch=info.leader_epoch, timestamp=spec.timestamp
            )
            by_leader.setdefault(info.leader, {}).setdefault(where.topic, []).append(row)
        found = {}
        for leader, topics in by_leader.items():
            request = m.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(self._committed_only),
                topics=[
                    m.ListOffsetsRequest_ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()
                ],
                timeout_ms=self._config["request.timeout.ms"],
            )
            for topic in (await (await self._network.connection(leader)).request(request)).topics:
                for row in topic.partitions:
                    if row.error_code:
                        raise broker_error(row.error_code, about=f"{topic.name}-{row.partition_index}")
                    where = TopicPartition(topic.name, row.partition_index)
                    found[where] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
        return found

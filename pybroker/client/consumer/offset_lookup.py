"""Offset lookup at the partitions' leaders: by time, first and last offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pybroker.client.client_errors import broker_error
from pybroker.client.cluster_metadata import TopicPartition, by_name, partition_of
from pybroker.client.config import ClientConfig
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Network
from pybroker.client.connection.offset_requests import heeds_ids, list_offsets_request, listed_offsets
from pybroker.client.offset_types import OffsetAndTimestamp, OffsetSpec
from pybroker.protocol.error_codes import ErrorCode

Offset = TypeVar("Offset")


class OffsetLookup:
    """A consumer's ListOffsets requests."""

    def __init__(self, config: ClientConfig, network: Network) -> None:
        self._config = config
        self._network = network
        self._committed_only = config["isolation.level"] == "read_committed"

    async def find(self, requested: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find offsets, even of partitions that the metadata does not have yet; retry while leaders change. Raises
        UnknownTopicError if a partition does not exist.
        """
        await self._network.existing(requested)

        async def look(_: object) -> dict[TopicPartition, OffsetAndTimestamp]:
            await self._network.refresh({where.topic for where in requested})
            return await self.once(requested)

        return await self._network.attempt("any", look, about="offsets")

    async def once(self, requested: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Send requests to the current leaders once. Raises the first error."""
        by_leader: dict[int, dict[TopicPartition, OffsetSpec]] = {}
        epochs = {}
        for where, spec in requested.items():
            info = self._network.cluster.partition(where)
            if info is None or info.leader < 0:
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, about=str(where))
            by_leader.setdefault(info.leader, {})[where] = spec
            epochs[where] = info.leader_epoch
        found = {}
        for leader, specs in by_leader.items():
            connection = await self._network.connection(leader)
            request = list_offsets_request(
                self._by_id(specs, connection),
                self._by_id(epochs, connection),
                read_committed=self._committed_only,
                timeout_ms=self._config["request.timeout.ms"],
            )
            for where, code, offset in listed_offsets(await connection.request(request)):
                if code:
                    raise broker_error(code, about=str(where))
                found[by_name(where)] = offset
        return found

    def _by_id(self, offsets: Mapping[TopicPartition, Offset], connection: BrokerConnection) -> Mapping[Any, Offset]:
        """If the broker reads topic ids, add the metadata's ids to the keys. Leader and leader epoch come from the same
        metadata, so they must not be applied to another incarnation.
        """
        if not heeds_ids(connection):
            return offsets
        id_of = self._network.cluster.topic_id
        return {partition_of(name, id_of(name), index): offset for (name, index), offset in offsets.items()}

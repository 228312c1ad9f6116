"""Offsets by time, first and last ones: asked of the partitions' leaders."""

from __future__ import annotations

from pybroker.client.cluster import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network
from pybroker.client.connection.offset_requests import list_offsets_request, listed_offsets
from pybroker.client.errors import broker_error
from pybroker.client.offsets import OffsetAndTimestamp, OffsetSpec
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

        return await self._network.attempt("any", look, about="offsets")

    async def once(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Asks the leaders that the metadata know. Raises the first error."""
        by_leader: dict[int, dict[TopicPartition, OffsetSpec]] = {}
        epochs = {}
        for where, spec in wanted.items():
            info = self._network.cluster.partition(where)
            if info is None or info.leader < 0:
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, about=str(where))
            by_leader.setdefault(info.leader, {})[where] = spec
            epochs[where] = info.leader_epoch
        found = {}
        for leader, specs in by_leader.items():
            request = list_offsets_request(
                specs, epochs, read_committed=self._committed_only, timeout_ms=self._config["request.timeout.ms"]
            )
            answer = await (await self._network.connection(leader)).request(request)
            for where, code, offset in listed_offsets(answer):
                if code:
                    raise broker_error(code, about=str(where))
                found[where] = offset
        return found

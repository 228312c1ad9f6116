"""Start positions of new partitions: the group's committed offset, else `auto.offset.reset`."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.client.client_errors import broker_error, is_retriable
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network
from pybroker.client.consumer.fetch_positions import PartitionState
from pybroker.client.consumer.fetcher import Fetcher
from pybroker.client.consumer.group.rebalances import Rebalances
from pybroker.client.consumer.missing_topics import MissingTopics
from pybroker.client.offset_types import OffsetAndMetadata


class ResetPolicy:
    """Finds start positions. The consumer calls it in each poll while a partition has no position."""

    def __init__(
        self, config: ClientConfig, network: Network, fetcher: Fetcher, rebalances: Rebalances, missing: MissingTopics
    ) -> None:
        self._network = network
        self._fetcher = fetcher
        self._rebalances = rebalances
        self._missing = missing
        self._has_group = config["group.id"] is not None
        self._creates: bool = config["allow.auto.create.topics"]

    async def find(self, states: Sequence[PartitionState], *, by_hand: bool) -> None:
        """Set positions, or the offset to look up. by_hand: True if the caller assigned the partitions, which may then
        not exist. Raises KafkaError if the caller may not read a topic.
        """
        network = self._network
        unknown = {state.where.topic for state in states if network.cluster.partition(state.where) is None}
        if unknown:
            await network.refresh(unknown, create=self._creates)
            for topic in unknown:
                found = network.cluster.by_name.get(topic)
                if found is not None and found.error_code and not is_retriable(found.error_code):
                    raise broker_error(found.error_code, about=f"topic {topic}")
            if by_hand:
                self._missing.log_warnings(network.cluster, unknown, [state.where for state in states])
        for state in states:
            if not state.topic_id:
                state.topic_id = network.cluster.topic_id(state.where.topic)
        known = [state for state in states if network.cluster.partition(state.where) is not None]
        committed: dict[TopicPartition, OffsetAndMetadata] = {}
        if self._has_group:
            turns = {state.where: state.turn for state in known}
            committed = await self._rebalances.commits().committed(turns)
            known = [state for state in known if state.turn == turns[state.where] and state.position is None]
        for state in known:
            offset = committed.get(state.where)
            if offset is None:
                self._fetcher.start_at(state)
            else:
                state.seek(offset.offset, offset.leader_epoch)
        self._fetcher.wake()

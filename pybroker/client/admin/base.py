"""What the parts of AdminClient share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pybroker.client.cluster import Cluster, TopicPartition
from pybroker.client.config import ADMIN, ClientConfig
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Network
from pybroker.client.errors import KafkaError, UnknownTopicError, UnsupportedVersionError, broker_error, is_retriable
from pybroker.protocol.error_codes import ErrorCode

_APPEARS_S = 2.0
"""How long a topic or partition that was just made may take to be known to every broker."""


class AdminBase:
    """Settings and connections."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = ClientConfig(ADMIN, config)
        self._network = Network(self._config)
        self._network.metadata.add_listeners(self._config.plugins("metric.reporters"))

    @property
    def cluster(self) -> Cluster:
        """What is known of the cluster so far."""
        return self._network.cluster

    def _timeout_ms(self, timeout_s: float | None) -> int:
        return self._config["request.timeout.ms"] if timeout_s is None else int(timeout_s * 1000)

    async def _controller(self, message: Any, rows: Callable[[Any], Iterable[Any]]) -> Any:
        """Asks the controller; again while some item says that it is not the controller."""

        async def ask(connection: BrokerConnection) -> Any:
            answer = await connection.request(message)
            if any(row.error_code == ErrorCode.NOT_CONTROLLER for row in rows(answer)):
                raise broker_error(ErrorCode.NOT_CONTROLLER)
            return answer

        return await self._network.attempt("controller", ask)

    async def _coordinator(self, group: str, ask: Callable[[BrokerConnection], Any]) -> Any:
        """Asks the coordinator of a group."""
        return await self._network.attempt(lambda: self._network.coordinator(group), ask)

    async def _leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by their leader's id. Raises KafkaError for one that has none or does not exist."""
        wanted = list(partitions)

        async def look(_connection: BrokerConnection) -> dict[int, list[TopicPartition]]:
            await self._network.refresh({each.topic for each in wanted})
            found: dict[int, list[TopicPartition]] = {}
            for each in wanted:
                topic = self.cluster.by_name.get(each.topic)
                if topic is not None and topic.error_code and not is_retriable(topic.error_code):
                    raise broker_error(topic.error_code, about=str(each))
                info = self.cluster.partition(each)
                if info is None:
                    raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {each}")
                if self.cluster.node(info.leader) is None:
                    raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, about=str(each))
                found.setdefault(info.leader, []).append(each)
            return found

        try:
            return await self._network.attempt("any", look, timeout_s=min(_APPEARS_S, self._network.api_timeout_s))
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopicError(error.code, error.message) from error
            raise

    @staticmethod
    def _at_least(connection: BrokerConnection, request: type, version: int, what: str) -> None:
        if not connection.supports(request, version):
            raise UnsupportedVersionError(f"the broker at {connection.address} cannot {what}")

"""Code that the parts of AdminClient share: settings, connections, routing of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pybroker.client.client_errors import UnsupportedVersionError, broker_error
from pybroker.client.cluster_metadata import Cluster, Partition, by_name
from pybroker.client.config import ADMIN, ClientConfig
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Network
from pybroker.client.connection.offset_requests import heeds_ids
from pybroker.client.connection.request_schema import request_schema
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


class AdminBase:
    """The settings and connections of an admin client."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = ClientConfig(ADMIN, config)
        self._network = Network(self._config)
        self._network.metadata.add_listeners(self._config.plugins("metric.reporters"))

    @property
    def cluster(self) -> Cluster:
        """The newest cluster metadata that the client has received."""
        return self._network.cluster

    def _timeout_ms(self, timeout_s: float | None) -> int:
        return self._config["request.timeout.ms"] if timeout_s is None else int(timeout_s * 1000)

    async def _controller(self, message: Any, rows: Callable[[Any], Iterable[Any]], ids: Iterable[Uuid] = ()) -> Any:
        """Send `message` to the controller and return the response. Retry while a row of the response has
        NOT_CONTROLLER.

        rows: returns the rows of a response. ids: topic ids that the message carries in tagged fields.
        """

        async def ask(connection: BrokerConnection) -> Any:
            self._require_topic_ids(connection, ids)
            answer = await connection.request(message)
            if any(row.error_code == ErrorCode.NOT_CONTROLLER for row in rows(answer)):
                raise broker_error(ErrorCode.NOT_CONTROLLER)
            return answer

        return await self._network.attempt("controller", ask, about=request_schema(type(message)).name)

    async def _coordinator(self, group: str, ask: Callable[[BrokerConnection], Any]) -> Any:
        """Run `ask` on a connection to the coordinator of a group, with retries."""
        return await self._network.attempt(lambda: self._network.coordinator(group), ask, about=f"group {group}")

    async def _leaders(self, partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
        """Group partitions by their leader's id. Raises KafkaError if a partition has no leader or does not exist."""
        requested = list(partitions)
        cluster = await self._network.existing([by_name(each) for each in requested])
        found: dict[int, list[Partition]] = {}
        for each in requested:
            leader = cluster.leader(by_name(each))
            if leader is None:
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, about=str(each))
            found.setdefault(leader.id, []).append(each)
        return found

    @staticmethod
    def _require_topic_ids(connection: BrokerConnection, ids: Iterable[Uuid]) -> None:
        """Raise UnsupportedVersionError if `ids` holds a topic id and the broker ignores pybroker's tagged fields.

        A broker that ignores the tags would apply the request to the current incarnation of the name, even if it has
        another id.
        """
        if any(topic_id != Uuid.ZERO for topic_id in ids) and not heeds_ids(connection):
            raise UnsupportedVersionError(
                f"the broker at {connection.address} accepts these topics only by name, not by id"
            )

    @staticmethod
    def _at_least(connection: BrokerConnection, request: type, version: int, what: str) -> None:
        if not connection.supports(request, version):
            raise UnsupportedVersionError(f"the broker at {connection.address} cannot {what}")

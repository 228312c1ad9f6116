"""AdminClient's calls about settings and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.admin.config_messages import answered_resource, describe_request, described
from pybroker.client.admin.config_types import AlterConfigOp, ConfigEntry, ConfigResource, ConfigResourceType
from pybroker.client.client_errors import broker_error
from pybroker.client.cluster_metadata import (
    Partition,
    TopicIdPartition,
    TopicPartition,
    by_topic_and_id,
    partition_of,
    topic_id_of,
)
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.network import Where
from pybroker.client.connection.request_schema import request_schema
from pybroker.native import Uuid
from pybroker.protocol import messages as m


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory. size: bytes. offset_lag: number of offsets behind the log end, or behind the
    replica that this replica will replace.
    """

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory. error_code: 0, or KAFKA_STORAGE_ERROR if it is offline. Byte counts are -1 if unknown."""

    error_code: int
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ConfigsAdmin(AdminBase):
    """Calls that describe and alter settings, describe log directories, and move replicas between them."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> KeyedResult[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of resources: resource → name → entry."""
        requested = list(resources)

        async def work(futures: Futures[ConfigResource, dict[str, ConfigEntry]]) -> None:
            for where, group in _by_broker(requested).items():
                request = describe_request(group, synonyms=include_synonyms, documentation=include_documentation)
                for each in described(await self._network.ask(request, where)):
                    if each.resource in futures:
                        future = futures[each.resource]
                        settle(future, each.error_code, each.error_message, each.entries, str(each.resource))

        return KeyedResult(start(requested, work))

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[AlterConfigOp]],
        *,
        validate_only: bool = False,
    ) -> KeyedResult[ConfigResource, None]:
        """Change single settings and keep the others (KIP-339)."""

        async def work(futures: Futures[ConfigResource, None]) -> None:
            for where, group in _by_broker(changes).items():
                request = m.IncrementalAlterConfigsRequest(
                    resources=[
                        m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                            resource_type=each.type,
                            resource_name=each.name,
                            topic_id=each.topic_id,
                            configs=[
                                m.IncrementalAlterConfigsRequest_AlterableConfig(
                                    name=op.name, config_operation=op.op, value=op.value
                                )
                                for op in changes[each]
                            ],
                        )
                        for each in group
                    ],
                    validate_only=validate_only,
                )
                answer = await self._ask_by_id(request, where, [each.topic_id for each in group])
                for row in answer.responses:
                    resource = answered_resource(row)
                    if resource in futures:
                        settle(futures[resource], row.error_code, row.error_message, None, str(resource))

        return KeyedResult(start(changes, work))

    async def _ask_by_id(self, request: Any, where: Where, ids: Sequence[Uuid]) -> Any:
        """Send `request` to `where`. ids: topic ids that the request carries in tagged fields."""

        async def ask(connection: BrokerConnection) -> Any:
            self._require_topic_ids(connection, ids)
            return await connection.request(request)

        return await self._network.attempt(where, ask, about=request_schema(type(request)).name)

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition | TopicIdPartition] | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers: broker id → path → description.

        brokers: None = all. partitions: return only replicas of these partitions, which are named by topic name or
        topic id; None = all replicas. The result omits a partition whose topic now has another name or id.
        """
        topics = None
        ids: list[Uuid] = []
        if partitions is not None:
            topics = [
                m.DescribeLogDirsRequest_DescribableLogDirTopic(topic=name, topic_id=topic_id, partitions=indexes)
                for (name, topic_id), indexes in by_topic_and_id(partitions).items()
            ]
            ids = [topic.topic_id for topic in topics]
        if brokers is None:
            brokers = [node.id for node in (await self._network.refresh(())).nodes]
        found = {}
        for broker in brokers:
            answer = await self._ask_by_id(m.DescribeLogDirsRequest(topics=topics), broker, ids)
            if answer.error_code:
                raise broker_error(answer.error_code, about=f"log directories of broker {broker}")
            found[broker] = {row.log_dir: _log_dir(row) for row in answer.results}
        return found

    def alter_replica_log_dirs(
        self, assignment: Mapping[tuple[Partition, int], str]
    ) -> KeyedResult[tuple[Partition, int], None]:
        """Move replicas to other log directories: (partition by name or id, broker id) → target directory."""

        async def work(futures: Futures[Any, None]) -> None:
            for broker in {broker for _, broker in assignment}:
                dirs: dict[str, list[Partition]] = {}
                for (partition, on), path in assignment.items():
                    if on == broker:
                        dirs.setdefault(path, []).append(partition)
                request = m.AlterReplicaLogDirsRequest(
                    dirs=[
                        m.AlterReplicaLogDirsRequest_AlterReplicaLogDir(
                            path=path,
                            topics=[
                                m.AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(
                                    name=name, topic_id=topic_id, partitions=indexes
                                )
                                for (name, topic_id), indexes in by_topic_and_id(partitions).items()
                            ],
                        )
                        for path, partitions in dirs.items()
                    ]
                )
                ids = [topic_id_of(partition) for partition, _ in assignment]
                answer = await self._ask_by_id(request, broker, ids)
                for topic in answer.results:
                    for row in topic.partitions:
                        key = (partition_of(topic.topic_name, topic.topic_id, row.partition_index), broker)
                        if key in futures:
                            settle(futures[key], row.error_code, None, None, str(key[0]))

        return KeyedResult(start(assignment, work))


def _by_broker(resources: Iterable[ConfigResource]) -> dict[Where, list[ConfigResource]]:
    """Group resources by the broker that can answer: only a broker itself knows its static settings and its loggers."""
    groups: dict[Where, list[ConfigResource]] = {}
    for each in resources:
        own = each.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and each.name != ""
        groups.setdefault(int(each.name) if own else "any", []).append(each)
    return groups


def _log_dir(row: Any) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in row.topics
        for each in topic.partitions
    }
    return LogDirDescription(row.error_code, replicas, row.total_bytes, row.usable_bytes)

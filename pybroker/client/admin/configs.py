"""AdminClient's calls about settings and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pybroker.client.admin.base import AdminBase
from pybroker.client.admin.config_messages import describe_request, described
from pybroker.client.admin.config_types import AlterConfigOp, ConfigEntry, ConfigResource, ConfigResourceType
from pybroker.client.admin.results import Futures, KeyedResult, settle, start
from pybroker.client.cluster import TopicPartition, by_topic
from pybroker.client.connection.network import Where
from pybroker.client.errors import broker_error
from pybroker.protocol import messages as m


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory. size in bytes; offset_lag: behind the log end (or the replica it replaces)."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory. error_code: 0, or KAFKA_STORAGE_ERROR once it is offline. Bytes are -1 where unknown."""

    error_code: int
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ConfigsAdmin(AdminBase):
    """Settings: describe, alter. Log directories: describe, move replicas."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> KeyedResult[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of resources: resource → name → entry."""
        wanted = list(resources)

        async def work(futures: Futures[ConfigResource, dict[str, ConfigEntry]]) -> None:
            for where, group in _by_broker(wanted).items():
                request = describe_request(group, synonyms=include_synonyms, documentation=include_documentation)
                for each in described(await self._network.ask(request, where)):
                    if each.resource in futures:
                        future = futures[each.resource]
                        settle(future, each.error_code, each.error_message, each.entries, str(each.resource))

        return KeyedResult(start(wanted, work))

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[AlterConfigOp]],
        *,
        validate_only: bool = False,
    ) -> KeyedResult[ConfigResource, None]:
        """Changes single settings and leaves the others (KIP-339)."""

        async def work(futures: Futures[ConfigResource, None]) -> None:
            for where, group in _by_broker(changes).items():
                request = m.IncrementalAlterConfigsRequest(
                    resources=[
                        m.IncrementalAlterConfigsRequest_AlterConfigsResource(
                            resource_type=each.type,
                            resource_name=each.name,
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
                answer = await self._network.ask(request, where)
                for row in answer.responses:
                    resource = ConfigResource(ConfigResourceType(row.resource_type), row.resource_name)
                    if resource in futures:
                        settle(futures[resource], row.error_code, row.error_message, None, str(resource))

        return KeyedResult(start(changes, work))

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The log directories of brokers: broker id → path → description. brokers: None = all. partitions: whose
        replicas are told; None = all of them.
        """
        topics = None
        if partitions is not None:
            topics = [
                m.DescribeLogDirsRequest_DescribableLogDirTopic(topic=name, partitions=indexes)
                for name, indexes in by_topic(partitions).items()
            ]
        if brokers is None:
            brokers = [node.id for node in (await self._network.refresh(())).nodes]
        found = {}
        for broker in brokers:
            answer = await self._network.ask(m.DescribeLogDirsRequest(topics=topics), broker)
            if answer.error_code:
                raise broker_error(answer.error_code, about=f"log directories of broker {broker}")
            found[broker] = {row.log_dir: _log_dir(row) for row in answer.results}
        return found

    def alter_replica_log_dirs(
        self, assignment: Mapping[tuple[TopicPartition, int], str]
    ) -> KeyedResult[tuple[TopicPartition, int], None]:
        """Moves replicas between log directories: (partition, broker id) → the directory to move to."""

        async def work(futures: Futures[tuple[TopicPartition, int], None]) -> None:
            for broker in {broker for _, broker in assignment}:
                dirs: dict[str, dict[str, list[int]]] = {}
                for (partition, on), path in assignment.items():
                    if on == broker:
                        dirs.setdefault(path, {}).setdefault(partition.topic, []).append(partition.partition)
                request = m.AlterReplicaLogDirsRequest(
                    dirs=[
                        m.AlterReplicaLogDirsRequest_AlterReplicaLogDir(
                            path=path,
                            topics=[
                                m.AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(name=name, partitions=indexes)
                                for name, indexes in topics.items()
                            ],
                        )
                        for path, topics in dirs.items()
                    ]
                )
                answer = await self._network.ask(request, broker)
                for topic in answer.results:
                    for row in topic.partitions:
                        key = (TopicPartition(topic.topic_name, row.partition_index), broker)
                        if key in futures:
                            settle(futures[key], row.error_code, None, None, str(key[0]))

        return KeyedResult(start(assignment, work))


def _by_broker(resources: Iterable[ConfigResource]) -> dict[Where, list[ConfigResource]]:
    """Static and logger settings of a broker are known to that broker only."""
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

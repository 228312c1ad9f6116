"""The impact of deleting a topic, computed before the deletion (`pybroker topics delete --dry-run`, the console)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pybroker.client.admin.admin_client import AdminClient
from pybroker.client.admin.config_types import ConfigEntry, ConfigResource
from pybroker.client.admin.group_admin import GroupListing
from pybroker.client.admin.security_types import AclBinding, AclBindingFilter, PatternType, ResourceType
from pybroker.client.admin.topic_types import TopicCollection, TopicDescription
from pybroker.client.client_errors import BrokerConnectionError, ErrorCode, KafkaError, KafkaTimeoutError
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.client.offset_types import OffsetSpec
from pybroker.native import Uuid

Value = TypeVar("Value")

PROTECTION = "delete.protection.enable"
"""The topic setting with which the broker refuses deletions."""
DELAY = "delete.topic.delay.ms"
"""Broker setting: the time during which a deleted topic can be undeleted."""
WITH_POSITIONS = frozenset({"consumer", "share", "streams", ""})
"""Protocol types of groups that may have offsets."""
GROUPS_MAX = 1_000
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group that has offsets in the topic. lag: unread records, None if unknown."""

    group: str
    state: str
    partitions: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class DeletionImpact:
    """The data that a deletion would remove. A value that is unknown is None; `unknown` has the reason. protected:
    whether the broker refuses the deletion. keeps_ms: how long undelete would be possible; None if it would be
    impossible.
    """

    topic: str
    topic_id: Uuid
    internal: bool
    partitions: int
    protected: bool
    records: int | None
    bytes: int | None
    groups: tuple[GroupPosition, ...] | None
    acls: tuple[AclBinding, ...] | None
    keeps_ms: int | None
    unknown: tuple[str, ...]


async def deletion_impact(admin: AdminClient, topic: str | Uuid) -> DeletionImpact:
    """Return the impact of deleting a topic, by name or by id. Changes nothing. Raises UnknownTopicError if the topic
    does not exist.
    """
    collection = (
        TopicCollection.of_topic_ids([topic]) if isinstance(topic, Uuid) else TopicCollection.of_topic_names([topic])
    )
    described: TopicDescription = (await admin.describe_topics(collection))[topic]
    partitions = [
        TopicPartition(described.name, each.partition) for each in described.partitions if each.leader is not None
    ]
    unknown: list[str] = []
    if len(partitions) < len(described.partitions):
        unknown.append(f"{len(described.partitions) - len(partitions)} partitions without a leader are not counted")
    first, last, used, config, acls, delay = await asyncio.gather(
        _known(unknown, "records", _offsets(admin, partitions, OffsetSpec.earliest())),
        _known(unknown, "records", _offsets(admin, partitions, OffsetSpec.latest())),
        _known(unknown, "bytes", _bytes(admin, partitions)),
        _known(unknown, "settings", _settings(admin, described.name)),
        _known(unknown, "access control lists", _acls(admin, described.name)),
        _known(unknown, "settings of the broker", _delay(admin)),
    )
    groups = await _known(unknown, "groups", _groups(admin, partitions, last or {}))
    protection = (config or {}).get(PROTECTION)
    return DeletionImpact(
        described.name,
        described.topic_id,
        described.internal,
        len(described.partitions),
        protection is not None and protection.value == "true",
        None if first is None or last is None else sum(last[each] - first[each] for each in partitions),
        used,
        groups,
        acls,
        delay,
        tuple(dict.fromkeys(unknown)),
    )


async def _known(unknown: list[str], what: str, work: Awaitable[Value]) -> Value | None:
    try:
        return await work
    except (KafkaError, BrokerConnectionError, KafkaTimeoutError) as error:
        unknown.append(f"{what}: {error}")
        return None


async def _offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, spec)
    return {where: found.offset for where, found in (await admin.list_offsets(wanted)).items()} if wanted else {}


async def _bytes(admin: AdminClient, partitions: list[TopicPartition]) -> int:
    """Return the bytes of all replicas, which the deletion frees."""
    if not partitions:
        return 0
    dirs = await admin.describe_log_dirs(partitions=partitions)
    return sum(
        replica.size
        for of_broker in dirs.values()
        for described in of_broker.values()
        for replica in described.replicas.values()
    )


async def _settings(admin: AdminClient, topic: str) -> Mapping[str, ConfigEntry]:
    resource = ConfigResource.topic(topic)
    return (await admin.describe_configs([resource]))[resource]


async def _delay(admin: AdminClient) -> int | None:
    """Return a broker's delay before it removes a deleted topic; None from Apache Kafka, which has no delay."""
    cluster = await admin.describe_cluster()
    resource = ConfigResource.broker(cluster.nodes[0].id)
    entry = (await admin.describe_configs([resource]))[resource].get(DELAY)
    return int(entry.value) if entry is not None and entry.value else None


async def _acls(admin: AdminClient, topic: str) -> tuple[AclBinding, ...]:
    try:
        wanted = AclBindingFilter(ResourceType.TOPIC, topic, PatternType.MATCH)
        return tuple(await admin.describe_acls(wanted))
    except KafkaError as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise
        return ()


async def _groups(
    admin: AdminClient, partitions: list[TopicPartition], ends: Mapping[TopicPartition, int]
) -> tuple[GroupPosition, ...]:
    if not partitions:
        return ()
    listed = await admin.list_groups()
    gate = asyncio.Semaphore(AT_ONCE)

    async def lags(group: GroupListing) -> list[int | None]:
        if group.protocol_type == "share":
            shared = await admin.list_share_group_offsets(group.group_id)
            return [shared[where].lag for where in partitions if where in shared]
        found = await admin.list_consumer_group_offsets(group.group_id, partitions)
        return [max(ends[where] - at.offset, 0) if where in ends else None for where, at in found.items()]

    async def position(group: GroupListing) -> GroupPosition | None:
        async with gate:
            each = await lags(group)
        lag = None if None in each else sum(filter(None, each))
        return GroupPosition(group.group_id, group.state, len(each), lag) if each else None

    chosen = sorted((each for each in listed if each.protocol_type in WITH_POSITIONS), key=lambda each: each.group_id)
    positions = await asyncio.gather(*map(position, chosen[:GROUPS_MAX]))
    return tuple(each for each in positions if each is not None)

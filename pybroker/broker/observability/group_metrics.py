"""Group metrics under Kafka's names: `kafka.coordinator.group:type=GroupMetadataManager` (gauges by state, NumOffsets)
and `kafka.server:type=group-coordinator-metrics` (counts).

Kafka also computes rates of the counts. For pybroker, the monitoring system computes the rates.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from pybroker.broker.coordinators.consumer.model import ConsumerGroupState
from pybroker.broker.coordinators.group.classic_group import ClassicGroupState
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.coordinators.share.group import ShareGroupState
from pybroker.broker.coordinators.streams.model import StreamsGroupState
from pybroker.broker.observability.metric import Metric

_MANAGER = "kafka_coordinator_group_groupmetadatamanager"
_SENSORS = "kafka_server_group_coordinator_metrics"

_STATES: dict[GroupKind, type[StrEnum]] = {
    GroupKind.CONSUMER: ConsumerGroupState,
    GroupKind.SHARE: ShareGroupState,
    GroupKind.STREAMS: StreamsGroupState,
}


def group_metrics(coordinator: GroupCoordinator) -> list[Metric]:
    """Return metrics of the groups that this broker coordinates, without shards that are still loading."""
    groups = coordinator.list_groups()[0]
    kinds = Counter(group.kind for group in groups)
    states = Counter((group.kind, group.state) for group in groups)
    statistics = coordinator.statistics
    return [
        Metric(f"{_MANAGER}_numgroups", "Groups (Kafka: NumGroups).", lambda: len(groups)),
        *(_of_protocol(kind, kinds[kind]) for kind in GroupKind),
        *(_by_state(kind, state, states[kind, state]) for kind, all_states in _STATES.items() for state in all_states),
        *(_in_state(state, states[GroupKind.CLASSIC, state]) for state in ClassicGroupState),
        Metric(f"{_MANAGER}_numoffsets", "Committed offsets (Kafka: NumOffsets).", coordinator.count_offsets),
        Metric(
            "pybroker_group_member_metadata_bytes",
            "Memory that the metadata of group members takes",
            coordinator.member_metadata_bytes,
        ),
        Metric(
            "pybroker_group_joins_refused_total",
            "Members refused because their metadata is too large",
            lambda: statistics.joins_refused,
            kind="counter",
        ),
        _count("offset_commit", "Offsets committed", statistics.offset_commits),
        _count("offset_expiration", "Offsets removed after their retention time", statistics.offset_expirations),
        _count("offset_deletion", "Offsets deleted, alone or with their group or topic", statistics.offset_deletions),
        _count("consumer_group_rebalance", "New target assignments of consumer groups", statistics.consumer_rebalances),
        _count("streams_group_rebalance", "New target assignments of streams groups", statistics.streams_rebalances),
        _count("group_completed_rebalance", "Rebalances completed", statistics.completed_rebalances),
    ]


def _of_protocol(kind: GroupKind, number: int) -> Metric:
    return Metric(
        f"{_SENSORS}_group_count",
        "Groups by protocol (Kafka: group-count).",
        lambda: number,
        labels={"protocol": kind.value},
    )


def _by_state(kind: GroupKind, state: StrEnum, number: int) -> Metric:
    return Metric(
        f"{_SENSORS}_{kind}_group_count",
        f"{kind.capitalize()} groups by state (Kafka: {kind}-group-count).",
        lambda: number,
        labels={"state": state.value.lower()},
    )


def _in_state(state: ClassicGroupState, number: int) -> Metric:
    kafkas = f"NumGroups{state.value}"
    return Metric(f"{_MANAGER}_{kafkas.lower()}", f"Groups in state {state.value} (Kafka: {kafkas}).", lambda: number)


def _count(name: str, what: str, number: int) -> Metric:
    kafkas = f"{name.replace('_', '-')}-count"
    return Metric(
        f"{_SENSORS}_{name}_count", f"{what} since the start (Kafka: {kafkas}).", lambda: number, kind="counter"
    )

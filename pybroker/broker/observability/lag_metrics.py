"""Consumer lag under the names of kafka_exporter (`kafka_consumergroup_…` by consumergroup, topic and partition), and
in seconds under the same name with `_seconds`.

A broker reports the groups that it coordinates, for the partitions that it hosts as leader or follower, because it
needs their logs. `pybroker_lag_unknown_partitions` counts the other partitions. Groups with the largest lag come first,
and a metric counts the groups beyond the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.group_base.group_registry import GroupKind
from pybroker.broker.observability.metric import Metric
from pybroker.errors import KafkaError
from pybroker.native import NativePartitions, Uuid

_PREFIX = "kafka_consumergroup"


class CommittedPosition(NamedTuple):
    """The offset that a group has committed for a partition."""

    group: str
    topic: str
    topic_id: Uuid
    partition: int
    offset: int


class _Behind(NamedTuple):
    position: CommittedPosition
    records: int
    seconds: float


def committed_positions(groups: GroupCoordinator) -> list[CommittedPosition]:
    """Return the positions of all groups of this broker in loaded shards. Runs on the loop's thread."""
    shown = (GroupKind.CLASSIC, GroupKind.CONSUMER)
    names = [group.group_id for group in groups.list_groups()[0] if group.kind in shown]
    found: list[CommittedPosition] = []
    for name in names:
        try:
            topics = groups.fetch_all(name)
        except KafkaError:
            # The shard has just moved to another broker, which reports its groups.
            continue
        for topic_id, offsets in topics:
            for partition, committed in offsets.partitions.items():
                found.append(CommittedPosition(name, offsets.name, topic_id, partition, committed.offset))
    return found


def lag_metrics(
    partitions: NativePartitions,
    positions: Sequence[CommittedPosition],
    *,
    now_ms: int,
    groups_max: int,
    partitions_max: int,
) -> list[Metric]:
    """Return lag metrics. This reads logs, so it must not run on the loop's thread."""
    groups: dict[str, list[_Behind]] = {}
    unknown = 0
    for position in positions:
        lag = partitions.lag(position.topic_id, position.partition, position.offset)
        if lag is None:
            unknown += 1
            continue
        seconds = max(0.0, (now_ms - lag.oldest_ms) / 1000) if lag.oldest_ms >= 0 else 0.0
        groups.setdefault(position.group, []).append(_Behind(position, lag.records, seconds))
    order = sorted(groups, key=lambda name: (-sum(row.records for row in groups[name]), name))
    shown = {name: groups[name] for name in sorted(order[:groups_max])}
    rows = sorted(row for group in shown.values() for row in group)
    kept = rows[:partitions_max]
    return [
        *_of_partitions("current_offset", "Committed offset.", [(row, row.position.offset) for row in kept]),
        *_of_partitions(
            "lag", "Records between the committed offset and the high watermark.", [(row, row.records) for row in kept]
        ),
        *_of_partitions(
            "lag_seconds",
            "Age of the first record that the group has not read; 0 if it has read all.",
            [(row, row.seconds) for row in kept],
        ),
        *(
            Metric(
                f"{_PREFIX}_lag_sum",
                "Records that a group has not read, over all its partitions.",
                lambda group=group: sum(row.records for row in group),  # type: ignore[misc]  # bound now
                {"consumergroup": name},
            )
            for name, group in shown.items()
        ),
        *(
            Metric(
                f"{_PREFIX}_lag_seconds_max",
                "Age of the oldest record that a group has not read.",
                lambda group=group: max(row.seconds for row in group),  # type: ignore[misc]  # bound now
                {"consumergroup": name},
            )
            for name, group in shown.items()
        ),
        Metric(
            "pybroker_lag_groups_left_out",
            "Groups without metrics because there are more than metrics.groups.max.",
            lambda: len(groups) - len(shown),
        ),
        Metric(
            "pybroker_lag_partitions_left_out",
            "Committed offsets without metrics because there are more than metrics.partitions.max.",
            lambda: len(rows) - len(kept),
        ),
        Metric(
            "pybroker_lag_unknown_partitions",
            "Committed offsets of groups coordinated here in partitions whose end this broker does not know: other "
            "brokers host them, or it has just begun to lead them.",
            lambda: unknown,
        ),
    ]


def _of_partitions(name: str, text: str, rows: Sequence[tuple[_Behind, float]]) -> Iterator[Metric]:
    for row, value in rows:
        position = row.position
        labels = {
            "consumergroup": position.group,
            "topic": position.topic,
            "partition": str(position.partition),
        }
        yield Metric(f"{_PREFIX}_{name}", text, lambda value=value: value, labels)  # type: ignore[misc]  # bound now

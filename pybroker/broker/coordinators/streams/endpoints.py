"""The partitions that each member's endpoint serves (for interactive queries). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pybroker.broker.coordinators.streams.group import StreamsGroup
from pybroker.broker.coordinators.streams.model import EndpointPartitions, Task


def partitions_by_endpoint(group: StreamsGroup, count_of: Callable[[str], int]) -> tuple[EndpointPartitions, ...]:
    """Return one entry for each member with an endpoint. `count_of`: returns the partition count of a topic."""
    return tuple(
        EndpointPartitions(
            member.metadata.endpoint,
            _sources(group, member.assigned.active, count_of),
            _sources(group, member.assigned.standby | member.assigned.warmup, count_of),
        )
        for member in group.members.values()
        if member.metadata.endpoint is not None
    )


def _sources(group: StreamsGroup, tasks: Iterable[Task], count_of: Callable[[str], int]) -> dict[str, tuple[int, ...]]:
    """Return the partitions of the tasks' input topics, by topic."""
    parts = {} if group.configured is None else group.configured.subtopologies
    found: dict[str, list[int]] = {}
    for part, index in sorted(tasks):
        if part not in parts:
            continue
        inputs = (*parts[part].sources, *(topic.name for topic in parts[part].repartition_sources))
        for name in inputs:
            if index < count_of(name):
                found.setdefault(name, []).append(index)
    return {name: tuple(indexes) for name, indexes in found.items()}

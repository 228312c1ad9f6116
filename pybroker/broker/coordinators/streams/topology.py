"""The topology of a Kafka Streams application, and the task and partition counts for the topics that exist. Pure
(KIP-1071).

    source topics          must exist; else MISSING_SOURCE_TOPICS
    repartition topics     partition count from the application, else from the input topics of the subtopologies that
                           write to the topic
    copartition groups     equal partition counts; else INCORRECTLY_PARTITIONED_TOPICS
    changelog topics       as many partitions as the subtopology has tasks
    tasks                  as many as the subtopology's largest input topic has partitions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode

NAMES_TOLD = 3
"""Limit of topic names in a status. Further topics are only counted."""


class InternalTopic(msgspec.Struct, frozen=True):
    """A repartition or changelog topic."""

    name: str
    partitions: int = 0
    """0: not specified."""
    replication_factor: int = 0
    """0: the broker's default."""
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, frozen=True):
    """Topics that must have equal partition counts. The values are indexes into the subtopology's lists."""

    sources: tuple[int, ...] = ()
    source_regexes: tuple[int, ...] = ()
    repartition_sources: tuple[int, ...] = ()


class Subtopology(msgspec.Struct, frozen=True):
    """A part of the topology with its own tasks."""

    subtopology_id: str
    sources: tuple[str, ...] = ()
    source_regexes: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """All topics that the subtopology's tasks read."""
        return *self.sources, *(topic.name for topic in self.repartition_sources)

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """Yield the copartition groups as topic names."""
        for group in self.copartition_groups:
            yield frozenset(
                [
                    *(self.sources[place] for place in group.sources),
                    *(self.repartition_sources[place].name for place in group.repartition_sources),
                ]
            )


class Topology(msgspec.Struct, frozen=True):
    """The topology of an application."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()
    """Sorted by id."""

    @property
    def required(self) -> frozenset[str]:
        """All topics that must exist."""
        names = ((*part.inputs, *(topic.name for topic in part.changelogs)) for part in self.subtopologies)
        return frozenset(name for of_part in names for name in of_part)

    def reading(self, topic: str) -> Subtopology | None:
        """Return the subtopology that reads a topic."""
        return next((part for part in self.subtopologies if topic in part.inputs), None)


class ConfiguredTopic(msgspec.Struct, frozen=True):
    """An internal topic with a known partition count."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class ConfiguredSubtopology(msgspec.Struct, frozen=True):
    """A subtopology with a known number of tasks."""

    tasks: int
    sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[ConfiguredTopic, ...]
    changelogs: tuple[ConfiguredTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, which standbys can copy."""
        return bool(self.changelogs)


class Unfit(Exception):
    """Base class of errors for existing topics that do not match the topology."""


class MissingSources(Unfit):
    """Source topics that do not exist."""


class PartitionCountError(Unfit):
    """Topics with wrong partition counts."""


class MissingInternal(Unfit):
    """Internal topics that must be created."""


class ConfiguredTopology(msgspec.Struct, frozen=True):
    """A topology with task and partition counts for the existing topics."""

    subtopologies: Mapping[str, ConfiguredSubtopology] = {}
    """By id, sorted; empty if source topics are missing or wrongly partitioned."""
    missing: tuple[ConfiguredTopic, ...] = ()
    """Internal topics that must be created."""
    problem: Unfit | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks may be assigned."""
        return self.problem is None


def check(topology: Topology) -> None:
    """Validate a topology, independent of the existing topics.

    Raise KafkaError STREAMS_INVALID_TOPOLOGY or INVALID_REQUEST.
    """
    for part in topology.subtopologies:
        if part.source_regexes:
            # Apache Kafka 4.4 refuses them with the same code and text.
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
        for topic in part.changelogs:
            if topic.partitions:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}.",
                )
        if not part.inputs:
            raise _invalid(f"No source topics found for subtopology {part.subtopology_id}")
        for group in part.copartition_groups:
            for places, among in (
                (group.sources, part.sources),
                (group.repartition_sources, part.repartition_sources),
            ):
                if any(not 0 <= place < len(among) for place in places):
                    raise _invalid(f"A copartition group of subtopology {part.subtopology_id} names no topic of it.")
    ids = [part.subtopology_id for part in topology.subtopologies]
    if len(set(ids)) != len(ids):
        raise _invalid("Two subtopologies have the same id.")
    # Detect cycles, and repartition topics to which no subtopology writes. Both are errors, independent of the existing
    # topics.
    _repartition_counts(topology, lambda _: 1)


def configure(topology: Topology, count_of: Callable[[str], int]) -> ConfiguredTopology:
    """Compute task and partition counts for the existing topics.

    `count_of`: returns the partition count of a topic, 0 if it does not exist.
    """
    try:
        missing = sorted({name for part in topology.subtopologies for name in part.sources if not count_of(name)})
        if missing:
            raise MissingSources(f"Source topics {_names(missing)} are missing.")
        counts = _counts(topology, count_of)
        parts = {part.subtopology_id: _configured(part, counts) for part in topology.subtopologies}
        to_make = _missing_internal(parts.values(), count_of)
    except Unfit as problem:
        return ConfiguredTopology(problem=problem)
    if to_make:
        names = _names([topic.name for topic in to_make])
        return ConfiguredTopology(parts, to_make, MissingInternal(f"Internal topics are missing: {names}"))
    return ConfiguredTopology(parts)


def _counts(topology: Topology, count_of: Callable[[str], int]) -> dict[str, int]:
    """Return the partition counts of all topics. A topic that does not exist gets the count with which it has to be
    created."""
    decided = _repartition_counts(topology, count_of)

    def count(name: str) -> int:
        return count_of(name) or decided[name]

    specified = {topic.name: topic.partitions for part in topology.subtopologies for topic in part.repartition_sources}
    for part in topology.subtopologies:
        for group in part.copartitioned():
            decided.update(_alike(group, specified, count))
    counts = {name: count(name) for part in topology.subtopologies for name in part.inputs}
    for part in topology.subtopologies:
        tasks = max(counts[name] for name in part.inputs)
        counts.update((topic.name, tasks) for topic in part.changelogs)
    # Internal topics must have the specified or computed count. An existing topic with another count is an error.
    counts.update((name, decided[name]) for name in specified)
    return counts


def _repartition_counts(topology: Topology, count_of: Callable[[str], int]) -> dict[str, int]:
    """Return the partition counts of repartition topics.

    If the application specifies no count, the count is that of the largest input topic among the subtopologies that
    write to the topic. Raise KafkaError STREAMS_INVALID_TOPOLOGY if a count cannot be determined.
    """
    counts = {
        topic.name: topic.partitions
        for part in topology.subtopologies
        for topic in part.repartition_sources
        if topic.partitions
    }
    waiting = [(part, sink) for part in topology.subtopologies for sink in part.repartition_sinks]
    while True:
        waiting = [(part, sink) for part, sink in waiting if sink not in counts]
        found: dict[str, int] = {}
        for part, sink in waiting:
            known = [counts.get(topic.name, 0) for topic in part.repartition_sources]
            largest = max([*known, *(count_of(name) for name in part.sources)], default=0)
            if largest:
                found.setdefault(sink, largest)
        if not found:
            break
        counts.update(found)
    if waiting:
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology"
            " that cannot be resolved."
        )
    if any(topic.name not in counts for part in topology.subtopologies for topic in part.repartition_sources):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is"
            " never used as a sink topic."
        )
    return counts


def _alike(group: frozenset[str], specified: Mapping[str, int], count: Callable[[str], int]) -> dict[str, int]:
    """Return the partition counts of a copartition group's repartition topics. Raise PartitionCountError."""
    internal = sorted(name for name in group if name in specified)
    others = sorted(name for name in group if name not in specified)
    fixed = [name for name in internal if specified[name]]
    if others:
        expected = _same(others, count)
    elif fixed:
        expected = _same(fixed, count)
    else:
        expected = max((count(name) for name in internal), default=0)
    for name in fixed:
        if count(name) != expected:
            raise PartitionCountError(
                f"Number of partitions [{count(name)}] of repartition topic [{name}] doesn't match number of"
                f" partitions [{expected}] of the source topic."
            )
    return dict.fromkeys(internal, expected)


def _same(names: list[str], count: Callable[[str], int]) -> int:
    counts = {name: count(name) for name in names}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}={number}" for name, number in counts.items())
        raise PartitionCountError(f"Following topics do not have the same number of partitions: [{{{text}}}]")
    return counts[names[0]]


def _configured(part: Subtopology, counts: Mapping[str, int]) -> ConfiguredSubtopology:
    def topics(internal: Iterable[InternalTopic]) -> tuple[ConfiguredTopic, ...]:
        return tuple(
            ConfiguredTopic(topic.name, topic.partitions or counts[topic.name], topic.replication_factor, topic.configs)
            for topic in sorted(internal, key=lambda topic: topic.name)
        )

    return ConfiguredSubtopology(
        max(counts[name] for name in part.inputs),
        tuple(sorted(part.sources)),
        tuple(sorted(part.repartition_sinks)),
        topics(part.repartition_sources),
        topics(part.changelogs),
    )


def _missing_internal(
    parts: Iterable[ConfiguredSubtopology], count_of: Callable[[str], int]
) -> tuple[ConfiguredTopic, ...]:
    missing: dict[str, ConfiguredTopic] = {}
    for part in parts:
        for topic in (*part.repartition_sources, *part.changelogs):
            there = count_of(topic.name)
            if not there:
                missing[topic.name] = topic
            elif there != topic.partitions:
                raise PartitionCountError(
                    f"Existing topic {topic.name} has different number of partitions: expected {topic.partitions},"
                    f" found {there}"
                )
    return tuple(missing[name] for name in sorted(missing))


def _names(names: list[str]) -> str:
    more = len(names) - NAMES_TOLD
    return ", ".join(names[:NAMES_TOLD]) + (f" and {more} additional topics" if more > 0 else "")


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)

"""Health of the cluster's partitions: without a leader, under-replicated, under min ISR, or being reassigned.

Each scrape of the metrics reads the sums. A topic is counted again only when it has changed. If many topics have
changed, `catch_up` counts them in steps, and lets other tasks run between the steps.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pybroker.config import BrokerConfig
from pybroker.native import Uuid

TOPICS_A_TURN = 200
MIN_ISR = "min.insync.replicas"
GUARDED: Mapping[str, str] = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
    "__share_group_state": "share.coordinator.state.topic.replication.factor",
}
"""Internal topics, and the settings of their replication factors."""


class PartitionCounts(msgspec.Struct):
    """Partition counts, named like Kafka's metrics."""

    partitions: int = 0
    offline: int = 0
    """Partitions without a leader."""
    under_replicated: int = 0
    """Partitions with a replica that is not in sync. A replica that a reassignment adds does not count."""
    under_min_isr: int = 0
    """Partitions with fewer in-sync replicas than `min.insync.replicas`. Writes with acks=all to them fail."""
    at_min_isr: int = 0
    """Partitions with exactly `min.insync.replicas` in-sync replicas. After one more failure, writes with acks=all to
    them fail."""
    not_preferred: int = 0
    """Partitions whose leader is not the first replica."""
    reassigning: int = 0
    too_few_replicas: int = 0
    """Partitions of internal topics with fewer replicas than the broker's settings require."""

    @property
    def in_trouble(self) -> bool:
        """Return whether at least one partition is unhealthy."""
        return bool(
            self.offline or self.under_replicated or self.under_min_isr or self.reassigning or self.too_few_replicas
        )

    def add(self, other: PartitionCounts, sign: int = 1) -> None:
        """Add the other counts, or subtract them (`sign` -1)."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))


class Condition(msgspec.Struct, frozen=True):
    """A partition that is unhealthy or being reassigned."""

    topic: TopicImage
    partition: int
    state: PartitionImage
    min_isr: int
    replicas_wanted: int


class BrokerLoad(msgspec.Struct):
    """Numbers of replicas and leaders of a broker."""

    leaders: int = 0
    replicas: int = 0


class _TopicCounts(msgspec.Struct, frozen=True):
    topic: TopicImage
    rules: tuple[int, int]
    all: PartitionCounts
    own: PartitionCounts | None
    """Counts of the partitions that the broker leads; None if it leads no partition."""
    leaders: Mapping[int, int]
    """Broker id → number of partitions that it leads."""
    replicas: Mapping[int, int]


class Conditions:
    """Counts partitions of the cluster view. Used on the loop's thread."""

    def __init__(self, view: ClusterView, config: BrokerConfig, broker_id: int) -> None:
        self._view = view
        self._broker_id = broker_id
        self._config = config
        self._counted: dict[Uuid, _TopicCounts] = {}
        self._all = PartitionCounts()
        self._own = PartitionCounts()
        self._leaders: Counter[int] = Counter()
        self._replicas: Counter[int] = Counter()
        self._at: tuple[ClusterImage, int, tuple[int, ...]] | None = None
        """The image and the settings from which the counts were computed."""

    @property
    def image(self) -> ClusterImage:
        """The image from which the counts were computed."""
        return self._view.image

    async def catch_up(self) -> None:
        """Count the topics that have changed, and let other tasks run in between. The next read then has only few
        topics to count."""
        for number, _ in enumerate(self._changes(), 1):
            if number % TOPICS_A_TURN == 0:
                await asyncio.sleep(0)

    def counts(self) -> PartitionCounts:
        """Return the counts of all partitions of the cluster."""
        self._count_changes()
        return self._all

    def led_here(self) -> PartitionCounts:
        """Return the counts of the partitions that this broker leads."""
        self._count_changes()
        return self._own

    def loads(self) -> dict[int, BrokerLoad]:
        """Return the load of every broker that is alive or has replicas."""
        self._count_changes()
        there = {*self._view.image.brokers, *(+self._replicas)}
        return {broker_id: BrokerLoad(self._leaders[broker_id], self._replicas[broker_id]) for broker_id in there}

    def troubled(self) -> Iterator[Condition]:
        """Yield partitions that have no leader, are under-replicated, are under min.insync.replicas, have too few
        replicas, or are being reassigned; sorted by topic."""
        self._count_changes()
        in_trouble = [counted for counted in self._counted.values() if counted.all.in_trouble]
        for condition in sorted(in_trouble, key=lambda each: each.topic.name):
            min_isr, required = condition.rules
            for index, state in enumerate(condition.topic.partitions):
                few = len(state.replicas) < required or len(state.isr) < min_isr
                if few or _is_offline(state) or _is_behind(state) or _moves(state):
                    yield Condition(condition.topic, index, state, min_isr, required)

    def _count_changes(self) -> None:
        for _ in self._changes():
            pass

    def _changes(self) -> Iterator[None]:
        """Update the counts, one topic per step of the iterator. Several callers may advance the same iterator."""
        required = tuple(self._config.get_int(setting) for setting in GUARDED.values())
        now = (self._view.image, self._config.get_int(MIN_ISR), required)
        if self._at is not None and self._at[0] is now[0] and self._at[1:] == now[1:]:
            return
        image, known = now[0], self._counted
        for topic_id in [topic_id for topic_id in known if topic_id not in image.names]:
            self._sum(known.pop(topic_id), -1)
        for topic in image.topics.values():
            rules = self._rules(topic)
            before = known.get(topic.topic_id)
            if before is not None:
                if before.topic is topic and before.rules == rules:
                    continue
                self._sum(before, -1)
            known[topic.topic_id] = after = _count(topic, rules, self._broker_id)
            self._sum(after, 1)
            yield
            if self._view.image is not image:
                return  # Another caller has counted a newer image.
        self._at = now

    def _sum(self, one: _TopicCounts, sign: int) -> None:
        self._all.add(one.all, sign)
        if one.own is not None:
            self._own.add(one.own, sign)
        for sums, added in ((self._leaders, one.leaders), (self._replicas, one.replicas)):
            for broker_id, number in added.items():
                sums[broker_id] += sign * number

    def _rules(self, topic: TopicImage) -> tuple[int, int]:
        """Return `min.insync.replicas` and the required number of replicas of a topic."""
        try:
            min_isr = int(topic.config[MIN_ISR])
        # The topic does not set it, or another release has stored a value that this release cannot parse.
        except (KeyError, ValueError):
            min_isr = self._config.get_int(MIN_ISR)
        # A single broker can hold only one replica of each partition.
        setting = GUARDED.get(topic.name) if self._config.in_cluster else None
        return min_isr, 0 if setting is None else self._config.get_int(setting)


def _is_offline(state: PartitionImage) -> bool:
    return state.leader < 0


def _moves(state: PartitionImage) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def _is_behind(state: PartitionImage) -> bool:
    """Return whether a replica is out of sync. If the partition has no leader, its last ISR does not count."""
    return _is_offline(state) or len(state.isr) < len(state.replicas) - len(state.adding_replicas)


def _count(topic: TopicImage, rules: tuple[int, int], broker_id: int) -> _TopicCounts:
    total = _of(topic.partitions, *rules)
    led_here = [state for state in topic.partitions if state.leader == broker_id]
    leaders = Counter(state.leader for state in topic.partitions if state.leader >= 0)
    replicas = Counter(chain.from_iterable(state.replicas for state in topic.partitions))
    return _TopicCounts(topic, rules, total, _of(led_here, *rules) if led_here else None, leaders, replicas)


def _of(partitions: Sequence[PartitionImage], min_isr: int, required: int) -> PartitionCounts:
    counts = PartitionCounts(len(partitions))
    for state in partitions:
        replicas, leader = state.replicas, state.leader
        in_sync = len(state.isr) if leader >= 0 else 0
        if leader != (replicas[0] if replicas else -1):
            counts.not_preferred += 1
        if in_sync < min_isr:
            counts.under_min_isr += 1
        elif in_sync == min_isr:
            counts.at_min_isr += 1
        if len(replicas) < required:
            counts.too_few_replicas += 1
        if leader >= 0 and in_sync == len(replicas) and not state.removing_replicas and not state.adding_replicas:
            continue
        counts.offline += _is_offline(state)
        counts.under_replicated += _is_behind(state)
        counts.reassigning += _moves(state)
    return counts

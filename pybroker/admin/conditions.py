"""How the partitions of the cluster are: which have no leader, too few replicas in sync, or are being moved.

Metrics ask at every scrape, so that a topic is counted anew only when it has changed: with 10,000 topics the rest is
one look at each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from pybroker.cluster.view import ClusterView
from pybroker.config import BrokerConfig
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pybroker.native import Uuid

CONSUMER_OFFSETS = "__consumer_offsets"
MIN_ISR = "min.insync.replicas"
OFFSETS_REPLICAS = "offsets.topic.replication.factor"


class Counts(msgspec.Struct):
    """Of some partitions. Their names are those of Kafka's metrics, in the plural of what is counted."""

    partitions: int = 0
    offline: int = 0
    """Without a leader."""
    under_replicated: int = 0
    """Some replica is not in sync. One that is only being added is not missed."""
    under_min_isr: int = 0
    """Fewer replicas in sync than `min.insync.replicas`: nobody can write with acks=all."""
    at_min_isr: int = 0
    """As many as that: one more that fails, and nobody can write."""
    not_preferred: int = 0
    """Not led by the first replica."""
    reassigning: int = 0
    too_few_replicas: int = 0
    """Of internal topics, with fewer replicas than the broker's settings say."""

    def add(self, other: Counts) -> None:
        """Counts the others' too."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Condition(msgspec.Struct, frozen=True):
    """A partition that is not as it should be."""

    topic: TopicImage
    partition: int
    state: PartitionImage
    min_isr: int
    replicas_wanted: int


class BrokerLoad(msgspec.Struct):
    """What a broker has."""

    leaders: int = 0
    replicas: int = 0


class _Counted(msgspec.Struct, frozen=True):
    topic: TopicImage
    rules: tuple[int, int]
    all: Counts
    led_by: Mapping[int, Counts]
    """By leader, for those who have one."""
    replicas: Mapping[int, int]
    """By broker."""


class Conditions:
    """Reads the view. On the loop's thread."""

    def __init__(self, view: ClusterView, config: BrokerConfig) -> None:
        self._view = view
        self._config = config
        self._counted: dict[Uuid, _Counted] = {}

    @property
    def image(self) -> ClusterImage:
        """What is judged."""
        return self._view.image

    def counts(self) -> Counts:
        """Of all partitions of the cluster."""
        total = Counts()
        for topic in self._topics():
            total.add(topic.all)
        return total

    def led_by(self, broker_id: int) -> Counts:
        """Of the partitions that a broker leads."""
        total = Counts()
        for topic in self._topics():
            own = topic.led_by.get(broker_id)
            if own is not None:
                total.add(own)
        return total

    def loads(self) -> dict[int, BrokerLoad]:
        """Of every broker that is alive or has replicas."""
        loads = {broker_id: BrokerLoad() for broker_id in self._view.image.brokers}
        for topic in self._topics():
            for broker_id, replicas in topic.replicas.items():
                loads.setdefault(broker_id, BrokerLoad()).replicas += replicas
            for broker_id, counts in topic.led_by.items():
                loads.setdefault(broker_id, BrokerLoad()).leaders += counts.partitions
        return loads

    def troubled(self) -> Iterator[Condition]:
        """Partitions without leader, under-replicated, under min.insync.replicas, with too few replicas, or being
        moved; by topic."""
        for name in sorted(self._view.image.topics):
            topic = self._view.image.topics[name]
            min_isr, wanted = self._rules(topic)
            for index, state in enumerate(topic.partitions):
                few = len(state.replicas) < wanted or len(state.isr) < min_isr
                if few or _is_offline(state) or _is_behind(state) or _moves(state):
                    yield Condition(topic, index, state, min_isr, wanted)

    def _topics(self) -> Iterator[_Counted]:
        known, topics = self._counted, self._view.image.topics
        if len(known) > 2 * len(topics):
            self._counted = known = {}
        for topic in topics.values():
            rules = self._rules(topic)
            counted = known.get(topic.topic_id)
            if counted is None or counted.topic is not topic or counted.rules != rules:
                counted = known[topic.topic_id] = _count(topic, rules)
            yield counted

    def _rules(self, topic: TopicImage) -> tuple[int, int]:
        """`min.insync.replicas`, and how many replicas there have to be."""
        try:
            min_isr = int(topic.config[MIN_ISR])
        except (KeyError, ValueError):  # not set for this topic, or by another version in words of its own
            min_isr = self._config.get_int(MIN_ISR)
        # A broker that is alone has no place for more, and is not asked for more.
        guarded = self._config.in_cluster and topic.name == CONSUMER_OFFSETS
        return min_isr, self._config.get_int(OFFSETS_REPLICAS) if guarded else 0


def _is_offline(state: PartitionImage) -> bool:
    return state.leader < 0


def _moves(state: PartitionImage) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def _is_behind(state: PartitionImage) -> bool:
    """A partition without a leader keeps the replicas that were in sync last: none of them is now."""
    return _is_offline(state) or len(state.isr) < len(state.replicas) - len(state.adding_replicas)


def _count(topic: TopicImage, rules: tuple[int, int]) -> _Counted:
    min_isr, wanted = rules
    total, led_by, replicas = Counts(), dict[int, Counts](), dict[int, int]()
    for state in topic.partitions:
        for broker_id in state.replicas:
            replicas[broker_id] = replicas.get(broker_id, 0) + 1
        in_sync = 0 if _is_offline(state) else len(state.isr)
        one = Counts(
            1,
            int(_is_offline(state)),
            int(_is_behind(state)),
            int(in_sync < min_isr),
            int(in_sync == min_isr),
            int(bool(state.replicas) and state.leader != state.replicas[0]),
            int(_moves(state)),
            int(len(state.replicas) < wanted),
        )
        total.add(one)
        if not _is_offline(state):
            led_by.setdefault(state.leader, Counts()).add(one)
    return _Counted(topic, rules, total, led_by, replicas)

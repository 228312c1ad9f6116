"""What the controller tells itself: what brokers have answered, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.cluster.events import Event, UndeletedTopic
from pybroker.broker.metadata.image import BrokerImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid


class Arrival(msgspec.Struct, frozen=True):
    """A broker that came up."""

    broker: BrokerImage
    intact: bool
    """Nothing that was visible in its life before can be lost."""


class BrokersChanged(Event[None], frozen=True):
    """Registrations came and went."""

    arrived: tuple[Arrival, ...] = ()
    gone: tuple[int, ...] = ()


class FenceBroker(Event[None], frozen=True):
    """The process of a broker is dead, which others have seen before its session with the store ends. KafkaError
    STALE_BROKER_EPOCH: another life of that broker is registered."""

    broker_id: int
    broker_epoch: int


class BrokerForgotten(Event[None], frozen=True):
    """What a broker that was unregistered has noted in the store is gone."""

    broker_id: int


class FinishUndelete(Event[UndeletedTopic | KafkaError], frozen=True):
    """Enough replicas have their data back, or no undelete is possible (`problem`)."""

    topic_id: Uuid
    problem: str | None = None
    holders: Mapping[int, tuple[int, ...]] | None = None
    """Brokers that have the data, by partition; None: all."""


class AdvanceDeletions(Event[None], frozen=True):
    """Deletions whose replicas have all confirmed (`staged`), or whose data is gone everywhere (`removed`)."""

    confirmed: tuple[tuple[Uuid, tuple[int, ...]], ...] = ()
    """Brokers that have confirmed, while others are still missing."""
    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()
    tombstones_max: int = 10_000
    """`topic.history.max.incarnations`."""


class RemoveLeftovers(Event[None], frozen=True):
    """The next nodes of a dead topic that was too large for the multi which freed its name."""

    name: str


class FinishMigrations(Event[None], frozen=True):
    """Old topics whose replicas have all written their new id to `partition.metadata`."""

    topics: tuple[str, ...]


class BalanceLeaders(Event[int], frozen=True):
    """Preferred leaders come back where a broker lacks more than `percentage` of those that it is preferred for. Reply:
    how many were elected."""

    percentage: int


class ElectAnyLeaders(Event[None], frozen=True):
    """Topics have come to prefer losing records to having no leader: where nobody leads, any replica does."""


class AdvanceReassignments(Event[None], frozen=True):
    """Of these topics, what is reassigned and has its new replicas in sync goes on without the old ones."""

    topics: tuple[Uuid, ...]


class ReplicasGone(Event[None], frozen=True):
    """Brokers have put aside what was moved away from them: topic, partition, broker, and the leader epoch with which
    it was told so."""

    confirmed: tuple[tuple[Uuid, int, int, int], ...]

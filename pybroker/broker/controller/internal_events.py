"""The controller's internal events: answers of brokers, and their consequences."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pybroker.broker.cluster.events import Event, UndeletedTopic
from pybroker.broker.metadata.image import BrokerImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid


class Arrival(msgspec.Struct, frozen=True):
    """A broker that has started."""

    broker: BrokerImage
    intact: bool
    """True if no record that was visible before the restart can be lost."""


class BrokersChanged(Event[None], frozen=True):
    """Change of the registrations: brokers with a new registration, and brokers that have lost theirs."""

    arrived: tuple[Arrival, ...] = ()
    gone: tuple[int, ...] = ()


class FenceBroker(Event[None], frozen=True):
    """Fencing of a broker whose process other brokers have seen dead, before its session with the store ends.
    KafkaError STALE_BROKER_EPOCH: another broker epoch is registered."""

    broker_id: int
    broker_epoch: int


class BrokerSessionEnded(Event[None], frozen=True):
    """A broker of a metadata quorum has sent no heartbeat for too long, or its process was seen dead. KafkaError
    STALE_BROKER_EPOCH: another broker epoch is registered."""

    broker_id: int
    broker_epoch: int


class BrokerForgotten(Event[None], frozen=True):
    """The nodes that an unregistered broker wrote to the store are removed."""

    broker_id: int


class FinishUndelete(Event[UndeletedTopic | KafkaError], frozen=True):
    """End of an undelete: enough replicas have their data back, or it is impossible (`problem`)."""

    topic_id: Uuid
    problem: str | None = None
    holders: Mapping[int, tuple[int, ...]] | None = None
    """Brokers that have the data, by partition; None means all."""


class AdvanceDeletions(Event[None], frozen=True):
    """Progress of deletions: all replicas have confirmed (`staged`), or the data is gone everywhere (`removed`)."""

    confirmed: tuple[tuple[Uuid, tuple[int, ...]], ...] = ()
    """Brokers that have confirmed, while others are still missing."""
    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()
    tombstones_max: int = 10_000
    """Value of `topic.history.max.incarnations`."""


class RemoveLeftovers(Event[None], frozen=True):
    """Remove the next nodes of a dead topic that was too large for the multi that freed its name."""

    name: str


class FinishMigrations(Event[None], frozen=True):
    """Migrated topics whose replicas have all written their new id to `partition.metadata`."""

    topics: tuple[str, ...]


class BalanceLeaders(Event[int], frozen=True):
    """Elect the preferred leaders of brokers that lack more than `percentage` of their leaderships. Reply: number of
    elections."""

    percentage: int


class ElectAnyLeaders(Event[None], frozen=True):
    """Election after topics have come to allow unclean elections: any replica may lead a partition without a leader."""


class AdvanceReassignments(Event[None], frozen=True):
    """Finish the reassignments of these topics whose new replicas are in sync."""

    topics: tuple[Uuid, ...]


class ReplicasGone(Event[None], frozen=True):
    """Confirmed replica removals: topic id, partition, broker, leader epoch of the removal."""

    confirmed: tuple[tuple[Uuid, int, int, int], ...]

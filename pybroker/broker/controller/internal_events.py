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
    """True if the restart cannot have lost a record that was visible before it."""


class BrokersChanged(Event[None], frozen=True):
    """Change of the registrations: brokers that have a new registration, and brokers that have lost their registration.
    """

    arrived: tuple[Arrival, ...] = ()
    gone: tuple[int, ...] = ()


class FinalizeFeatures(Event[None], frozen=True):
    """The first event of a term in a metadata log without a level of metadata.version."""

    users: Mapping[str, Mapping[str, str]] = {}
    """The users that were added before the first start: SCRAM credentials by name and mechanism."""


class FenceBroker(Event[None], frozen=True):
    """Fencing of a broker before its session with the store ends, because other brokers have seen that its process is
    dead. KafkaError STALE_BROKER_EPOCH: another broker epoch is registered.
    """

    broker_id: int
    broker_epoch: int


class BrokerSessionEnded(Event[None], frozen=True):
    """A broker of a metadata quorum has sent no heartbeat for too long, or other brokers have seen that its process is
    dead. KafkaError STALE_BROKER_EPOCH: another broker epoch is registered.
    """

    broker_id: int
    broker_epoch: int


class BrokerForgotten(Event[None], frozen=True):
    """Report that the nodes which an unregistered broker wrote to the store have been removed."""

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
    """Brokers that have confirmed; others are still missing."""
    staged: tuple[Uuid, ...] = ()
    removed: tuple[Uuid, ...] = ()
    tombstones_max: int = 10_000
    """Value of `topic.history.max.incarnations`."""


class RemoveLeftovers(Event[None], frozen=True):
    """Remove the next part of a dead topic's nodes. The topic had too many nodes for the multi that freed its name."""

    name: str


class FinishMigrations(Event[None], frozen=True):
    """Report of migrated topics: all their replicas have written the new topic id to `partition.metadata`."""

    topics: tuple[str, ...]


class BalanceLeaders(Event[int], frozen=True):
    """Elect the preferred leaders of each broker that lacks more than `percentage` of the leaderships it should have.
    Reply: number of elections.
    """

    percentage: int


class ElectAnyLeaders(Event[None], frozen=True):
    """Election in topics that now allow unclean elections and did not before: any replica may lead a partition without
    a leader.
    """


class AdvanceReassignments(Event[None], frozen=True):
    """Finish the reassignments of these topics if their new replicas are in sync."""

    topics: tuple[Uuid, ...]


class ReplicasGone(Event[None], frozen=True):
    """Confirmed replica removals: topic id, partition, broker, leader epoch of the removal."""

    confirmed: tuple[tuple[Uuid, int, int, int], ...]
